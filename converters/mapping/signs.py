"""Signs that a row loses something or holds what no record should: counted alike wherever rows are.

The check of a sample and a conversion of all rows count with this one list, by whichever executor a
row is converted, so that their gates cannot disagree. What is counted are rows:

    media          an image, an audio or a video that belongs to a conversation
    passed_over    a block, or a field beside a text, that holds something and of which the mapping
                   of a conversation takes nothing: calls, results, thoughts, refusals, tools
    conversations  a text or message that holds a whole conversation
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from ingot.converters.mapping.columns.candidates import candidate_rows, candidate_texts
from ingot.converters.mapping.columns.executor import UnifiedTable
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.mapping.taken import (
    CARRIES,
    MEDIA_KINDS,
    OFFERED_TOOLS,
    THOUGHT,
    Taken,
    bare_name,
    taken_places,
)
from ingot.converters.rows import Batch, Json
from ingot.converters.sources.text_kinds import MOST_TRANSCRIPTS, is_transcript

_MARK = re.compile(
    r"<\|?(?:image|audio|video|img)(?:_pad|_\d+)?\|?>|!\[[^\]\n]{0,80}\]\((?:(?!!\[[^\]\n]{0,80}\]\()[^)\s])++\)"
)
MEDIA_FILE: Final = re.compile(
    r"^\S+\.(?:jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|flac|ogg|m4a|mp4|avi|mov|webm|mkv)(?:\?\S*)?$"
    r"|^data:(?:image|audio|video)/",
    re.IGNORECASE | re.MULTILINE,
)
_DECORATION = re.compile(r"avatar|icon|logo|thumb|profile|badge|头像|アイコン", re.IGNORECASE)
_LONGEST_REFERENCE = 500  # characters of a path or an address; data are cut there
_LOOK = 4000  # characters of a text that are looked at
_SHOWN_KIND = re.compile(r"[A-Za-z_-]{1,40}")  # no value of a row looks so that must not be shown
_LABEL = re.compile(r"type|kind|role|index|status|cache_control|(?:.*[_-])?ids?|.*I[dD]s?")
_NOTHING = ("", "[]", "{}", "null", "None")


class SignRows(TypedDict):
    """How many rows have a sign, and the first; `what` it holds, where there is more to say."""

    rows: int
    file: str
    row: int
    what: str


Found = dict[str, dict[int, str]]  # by sign the rows, each with what was found


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What a gate says of a sign: its name, the share of rows that it lets pass, and why."""

    gate: str
    most: float
    why: str

    @property
    def limit(self) -> str:
        """The share as gates name it."""
        return f"at most {self.most:.0%}".replace("%", " %") if self.most else "none"


SIGNS: Final = {
    "media": Sign(
        gate="images, audio, video",
        most=0.0,
        why="records are without an image, audio or video that belongs to them",
    ),
    "passed_over": Sign(
        gate="parts passed over",
        most=0.0,
        why="rows hold a block or a field of which the mapping takes nothing",
    ),
    "conversations": Sign(
        gate="conversations in one text",
        most=MOST_TRANSCRIPTS,
        why="records hold a whole conversation in one text",
    ),
}


def exceeds(sign: str, rows: int, whole: int, *, documents: bool) -> bool:
    """Whether so many rows of a whole are more than the gate of a sign lets pass."""
    if sign == "conversations" and documents:  # documents that all are conversations are meant so
        rows = min(rows, whole - rows)
    return rows > SIGNS[sign].most * whole


def sign_text(name: str, found: SignRows) -> str:
    """What people read of a sign: how many rows, which limit there is, and where the first is."""
    sign, rows = SIGNS[name], f"{found['rows']:,} row{'s' * (found['rows'] != 1)}"
    what = f", {found['what']}" if found["what"] else ""
    place = f"the first: {found['file']} row {found['row']}{what}"
    return f"{sign.gate}: {rows} (limit: {sign.limit}): {sign.why}; {place}"


@dataclass(frozen=True, slots=True)
class RowSigns:
    """The signs of the rows of one batch that give a record, as far as they were added."""

    beside: Found  # of the rows as they are read
    found: Found
    chat: bool

    def add(self, made: UnifiedBatch | UnifiedTable) -> None:
        """Add what some records hold, and what stands beside them in their rows."""
        if isinstance(made, UnifiedTable):
            texts = candidate_texts(made.table, made.rows, chat=self.chat)
        else:
            texts = _record_texts(made.records, made.rows)
        for row, text in texts:
            head = text[:_LOOK]
            if self.chat and (_MARK.search(head) or MEDIA_FILE.search(head)):
                self.found.setdefault("media", {})[row] = ""
            if is_transcript(head):
                self.found.setdefault("conversations", {})[row] = ""
        converted = set(map(int, made.rows)) if self.beside else set()
        for sign, rows in self.beside.items():
            if kept := {row: kind for row, kind in rows.items() if row in converted}:
                self.found.setdefault(sign, {}).update(kept)


class SignFinder:
    """Finds the signs of rows, and of the records that a mapping makes of them."""

    def __init__(self, mapping: Mapping) -> None:
        self._chat = mapping.kind == "sft"
        self._taken = taken_places(mapping)
        self._tools = taken_places(mapping, only="/tools")

    def look(self, batch: Batch) -> RowSigns:
        """Look at the rows of a batch; of a table at those alone that may have a sign."""
        rows, values = batch.rows, batch.values
        if batch.table is not None:
            places = candidate_rows(batch.table, self._taken, chat=self._chat)
            rows = [batch.rows[place] for place in places]
            values = batch.take(places).values if places else []
        beside: Found = {}
        for row, value in zip(rows, values, strict=True):
            if _belongs_to_media(value, self._taken, texts=self._chat):
                beside.setdefault("media", {})[row] = ""
            if self._chat and (kind := next(self._passed_over(value), None)):
                told = kind if _SHOWN_KIND.fullmatch(kind) else ""
                beside.setdefault("passed_over", {})[row] = told
        return RowSigns(beside, {}, self._chat)

    def _passed_over(self, value: Json) -> Iterator[str]:
        yield from _passed_over(value, self._taken)
        if value.__class__ is dict:
            unread = [key for key in value.keys() - self._taken.known if OFFERED_TOOLS.search(key)]
            if unread and not _takes(value, self._tools):
                yield from (key for key in sorted(unread) if _holds_parts(value[key]))


def _record_texts(
    records: Sequence[dict[str, Json]], rows: Sequence[int]
) -> Iterator[tuple[int, str]]:
    for row, record in zip(rows, records, strict=True):
        if "text" in record:
            yield row, record["text"]
        else:
            yield from ((row, message["content"]) for message in record["messages"])


def _belongs_to_media(value: Json, taken: Taken, *, texts: bool) -> bool:
    """Whether a row has media: blocks by their type; with `texts` also names of files."""
    waiting: list[tuple[str, Json, Taken | None]] = [("", value, taken)]
    while waiting:
        name, value, at = waiting.pop()
        if value.__class__ is dict:
            kind = value.get("type")
            if kind.__class__ is str and MEDIA_KINDS.fullmatch(kind) and len(value) > 1:
                return True
            waiting += [(key, one, at and at.at(key)) for key, one in value.items()]
        elif value.__class__ is list:
            below = at and at.each
            # What records hold is looked at there.
            left = [one for one in value if not at.covers(one)] if at and texts else value
            waiting += [(name, one, below) for one in left]
        elif texts and value.__class__ is str and is_media_name(name, value):
            return True
    return False


def is_media_name(name: str, text: str) -> bool:
    """Whether a text that a field holds is nothing but the name or the data of a media file."""
    words = text[:_LONGEST_REFERENCE].split(maxsplit=1)
    return (
        len(words) == 1 and bool(MEDIA_FILE.search(words[0])) and not _DECORATION.search(str(name))
    )


# --- what a mapping passes over


def _passed_over(value: Json, taken: Taken) -> Iterator[str]:
    """What the elements of walked lists hold that is not taken, by the names of it."""
    if value.__class__ is dict:
        for inner, below in _walked(value, taken):
            yield from _passed_over(inner, below)
    elif value.__class__ is list:
        for place, one in enumerate(value):
            if taken.covers(one):  # most of them
                continue
            below = taken.element(place, len(value))
            if one.__class__ is dict and (below or "type" in one):
                yield from _element_passed_over(one, below or Taken())
            elif below:
                yield from _passed_over(one, below)


def _walked(value: dict[str, Json], taken: Taken) -> Iterator[tuple[Json, Taken]]:
    """The lists and objects in an object inside of which texts are taken."""
    for key, below in taken.deep:
        inner = value.get(key)
        if inner.__class__ is list or inner.__class__ is dict:
            yield inner, below
    if taken.each_value:
        yield from ((inner, taken.each_value) for inner in value.values())


def _element_passed_over(one: dict[str, Json], taken: Taken) -> Iterator[str]:
    extra = one.keys() - taken.known
    inside = [kind for inner, below in _walked(one, taken) for kind in _passed_over(inner, below)]
    yield from inside
    if not extra:
        return
    if _takes(one, taken):
        for key in sorted(extra):
            if (CARRIES.fullmatch(bare_name(key)) and _holds(one[key])) or (
                key == THOUGHT and one[key] is True
            ):
                yield key
    elif not inside:
        yield from _payload(one, sorted(extra))


def _payload(one: dict[str, Json], extra: Sequence[str]) -> Iterator[str]:
    """The type of an element that holds something, or the name under which it does."""
    kind = one.get("type")
    typed = isinstance(kind, str)
    if typed and MEDIA_KINDS.fullmatch(kind):  # they have a sign of their own
        return
    for key in extra:
        if _LABEL.fullmatch(key) or not _holds(one[key]):
            continue
        running = isinstance(one[key], list | dict) or len(one[key].split()) > 1
        if typed or running or CARRIES.fullmatch(bare_name(key)):
            yield kind if typed else key


def _takes(value: Json, taken: Taken) -> bool:
    """Whether a text is taken from somewhere in a value."""
    if taken.whole and value is not None:
        if value.__class__ is str:
            return bool(value.strip())
        if not isinstance(value, list | dict):
            return True
        if not taken.below:
            return _holds(value)
    if value.__class__ is dict:
        named = ((one, taken.at(key)) for key, one in value.items())
        return any(below and _takes(one, below) for one, below in named)
    if value.__class__ is not list:
        return False
    places = ((one, taken.element(n, len(value))) for n, one in enumerate(value))
    return any(below and _takes(one, below) for one, below in places)


def _holds(value: Json) -> bool:
    """Whether a text, or a list or an object that has one inside, is more than nothing."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one.__class__ is str:
            if one.strip() not in _NOTHING:
                return True
        elif one.__class__ is dict:
            waiting += one.values()
        elif one.__class__ is list:
            waiting += one
    return False


def _holds_parts(value: Json) -> bool:
    """Whether a value is a list or an object, also as JSON in a text, that holds something."""
    spelt = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return bool(isinstance(value, list | dict) or spelt) and _holds(value)
