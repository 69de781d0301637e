"""Signs that a row loses something or holds what no record should: counted alike wherever rows are.

The check of a sample and a conversion of all rows count with this one list, by whichever executor a
row is converted, so that their gates cannot disagree. What is counted are rows:

    media          an image, an audio or a video that belongs to a conversation
    passed_over    a block, or a field beside a text, that holds something and of which the mapping
                   of a conversation takes nothing: calls, results, thoughts, refusals, tools
    conversations  a text or message that holds a whole conversation
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypedDict

from ingot.converters.mapping.columns.executor import UnifiedTable
from ingot.converters.mapping.columns.suspects import candidate_rows, candidate_texts
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.mapping.taken import (
    CARRIES,
    MEDIA_KINDS,
    OFFERED_TOOLS,
    Taken,
    taken_places,
)
from ingot.converters.rows import Batch, Json
from ingot.converters.sources.text_kinds import MOST_TRANSCRIPTS, is_transcript, record_texts

# A mark that names a medium, maybe among other words: `<image>`, `<|video_pad|>`, `<ImageHere>`,
# `<start_of_image>`, `<image/>`, `[IMG]`, `[image: a.png]`; or an image of Markdown.
_MARK = re.compile(
    r"<\|?(?:[a-z]{1,9}_){0,3}(?:image|img|audio|video|speech|media)[a-z0-9_ ]{0,20}+/?\|?>"
    r"|\[(?:image|img|audio|video)(?:: ?[^\]\[\n]{1,80})?\]"
    r"|!\[[^\]\n]{0,80}\]\((?:(?!!\[[^\]\n]{0,80}\]\()[^)\s])++\)",
    re.IGNORECASE,
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


class SignFinder:
    """Finds the signs of rows, and of the records that a mapping makes of them, batch by batch."""

    def __init__(self, mapping: Mapping) -> None:
        self.found: Found = {}  # of the batch that was looked at last
        self._beside: Found = {}
        self._chat, self._grouped = mapping.kind == "sft", mapping.group is not None
        self._taken = taken_places(mapping)
        self._tools = taken_places(mapping, only="/tools")

    def look(self, batch: Batch) -> None:
        """Look at the rows of a batch; of a table at those alone that may have a sign."""
        self.found, self._beside = {}, {}
        rows, values = batch.rows, batch.values
        if batch.table is not None:
            places = candidate_rows(batch.table, self._taken, grouped=self._grouped)
            rows = [batch.rows[place] for place in places]
            values = batch.take(places).values if places else []
        for row, value in zip(rows, values, strict=True):
            if _belongs_to_media(value, self._taken, texts=self._chat):
                self._beside.setdefault("media", {})[row] = ""
            if self._chat and (kind := next(self._passed_over(value), None)):
                told = kind if _SHOWN_KIND.fullmatch(kind) else ""
                self._beside.setdefault("passed_over", {})[row] = told

    def add(self, made: UnifiedBatch | UnifiedTable) -> None:
        """Add the signs of some of its records, and of their rows."""
        if isinstance(made, UnifiedTable):
            texts = candidate_texts(made.table, made.rows, chat=self._chat)
        else:
            pairs = zip(made.rows, made.records, strict=True)
            texts = ((row, text) for row, record in pairs for text in record_texts(record))
        for row, text in texts:
            head = text[:_LOOK]
            if self._chat and (_MARK.search(text) or MEDIA_FILE.search(head)):
                self.found.setdefault("media", {})[row] = ""
            if is_transcript(head):
                self.found.setdefault("conversations", {})[row] = ""
        converted = set(map(int, made.rows)) if self._beside else set()
        for sign, rows in self._beside.items():
            for row in converted & rows.keys():
                self.found.setdefault(sign, {})[row] = rows[row]

    def _passed_over(self, value: Json) -> Iterator[str]:
        yield from _passed_over(value, self._taken)
        if value.__class__ is dict:
            unread = sorted(filter(_offers_tools, value.keys() - self._taken.below.keys()))
            if unread and not _takes(value, self._tools):
                yield from (key for key in unread if _holds_parts(value[key]))


def _belongs_to_media(value: Json, taken: Taken, *, texts: bool) -> bool:
    """Whether a row has media: blocks by their type; with `texts` also names of files."""
    waiting: list[tuple[str, Json, Taken | None]] = [("", value, taken)]
    while waiting:
        name, value, at = waiting.pop()
        if value.__class__ is dict:
            kind = value.get("type")
            if kind.__class__ is str and kind in MEDIA_KINDS and len(value) > 1:
                return True
            waiting += [(key, one, at and at.at(key)) for key, one in value.items()]
        elif value.__class__ is list:
            below = at and at.each
            skipped = below and below.texts and texts
            left = _uncovered(value, below, _is_plain_type) if below and skipped else value
            waiting += [(name, one, below) for one in left]
        elif texts and value.__class__ is str and is_media_name(name, value):
            return True
    return False


def is_media_name(name: str, text: str) -> bool:
    """Whether a text that a field holds is nothing but the name or the data of a media file."""
    words = text[:_LONGEST_REFERENCE].split(maxsplit=1)
    if len(words) != 1 or not ("." in words[0] or ":" in words[0]):
        return False
    return bool(MEDIA_FILE.search(words[0])) and not _DECORATION.search(name)


# --- what a mapping passes over


def _uncovered(
    elements: list[Json], taken: Taken, is_plain: Callable[[str, Json], bool]
) -> list[Json]:
    """Elements but for those of which all is taken as a text or another value, or is plain."""
    if taken.deep or taken.each:
        return elements
    known = taken.below.keys()
    return [
        one
        for one in elements
        if one.__class__ is not dict
        or not all(is_plain(key, one[key]) for key in one.keys() - known)
    ]


def _is_plain_type(key: str, value: Json) -> bool:
    word = key == "type" and isinstance(value, str) and value.isidentifier()
    return word and value not in MEDIA_KINDS


@lru_cache(maxsize=1024)
def _is_label(key: str) -> bool:
    return bool(_LABEL.fullmatch(key))


@lru_cache(maxsize=1024)
def _offers_tools(key: str) -> bool:
    return bool(OFFERED_TOOLS.search(key))


def _passed_over(value: Json, taken: Taken) -> Iterator[str]:
    """What the elements of walked lists hold that is not taken, by the names of it."""
    each = taken.each
    if value.__class__ is list and each and each.texts:
        for one in _uncovered(value, each, lambda key, _: _is_label(key)):
            if one.__class__ is dict:
                yield from _element_passed_over(one, each)
            else:
                yield from _passed_over(one, each)
    elif value.__class__ is dict:
        for key, below in taken.deep:
            if key in value:
                yield from _passed_over(value[key], below)
        for one in value.values() if each else ():
            yield from _passed_over(one, each or taken)


def _element_passed_over(one: dict[str, Json], taken: Taken) -> Iterator[str]:
    inside = list(_passed_over(one, taken))
    yield from inside
    extra = one.keys() - taken.below.keys()
    if not extra:
        return
    speaks, kind = _takes(one, taken), one.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in MEDIA_KINDS:  # they have a sign of their own
        return
    for key in sorted(key for key in extra if _holds(one[key])):
        silent = not (speaks or inside or _is_label(key))
        running = isinstance(one[key], list | dict) or len(one[key].split()) > 1
        if CARRIES.fullmatch(key) or (silent and (kind or running)):
            yield key if speaks else kind or key


def _takes(value: Json, taken: Taken | None) -> bool:
    """Whether a text is taken from somewhere in a value."""
    if taken is None or not taken.texts or value is None:
        return False
    if value.__class__ is dict and (taken.below or taken.each):
        return any(_takes(one, taken.at(key)) for key, one in value.items())
    if value.__class__ is list and taken.each:
        return any(_takes(one, taken.each) for one in value)
    spoken = value.strip() if isinstance(value, str) else _holds(value)
    return taken.whole and bool(spoken)


def _holds(value: Json) -> bool:
    """Whether a text, or a list or an object that has one inside, is more than nothing."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one.__class__ is str and one.strip() not in _NOTHING:
            return True
        if one.__class__ is dict or one.__class__ is list:
            waiting += one.values() if one.__class__ is dict else one
    return False


def _holds_parts(value: Json) -> bool:
    """Whether a value is a list or an object, also as JSON in a text, that holds something."""
    spelt = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return bool(isinstance(value, list | dict) or spelt) and _holds(value)
