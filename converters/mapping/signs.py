"""Signs that a row loses something or holds what no record should: counted alike wherever rows are.

The check of a sample and a conversion of all rows count with this one list, by whichever executor a
row is converted, so that their gates cannot disagree. What is counted are rows:

    media          an image, an audio or a video that belongs to a conversation
    passed_over    a block, or a field beside a text, that holds something and of which the mapping
                   of a conversation takes nothing: calls, results, thoughts, refusals, tools
    thoughts       what was thought before an answer is joined to it without a mark
    conversations  a text or message that holds a whole conversation
    embedded       a text with a file in it, as base64 behind `data:`
    embedded_large such a file of many characters
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypedDict, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import count_text
from ingot.converters.mapping.columns.executor import UnifiedTable
from ingot.converters.mapping.columns.frame import Places
from ingot.converters.mapping.columns.suspects import candidate_rows, candidate_texts
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import Record, UnifiedBatch
from ingot.converters.mapping.taken import (
    CARRIES,
    DECORATION,
    KIND,
    MEDIA_KINDS,
    NOWHERE,
    THOUGHT_KINDS,
    THOUGHTS,
    Taken,
    taken_places,
)
from ingot.converters.output.figures import format_whole_percent
from ingot.converters.rows import Batch, Json
from ingot.converters.sources.text_kinds import (
    EMBEDDED,
    EMBEDS,
    MOST_TRANSCRIPTS,
    is_transcript,
    record_texts,
)

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
_LONGEST_REFERENCE = 500  # characters of a path or an address; data are cut there
_LOOK = 4000  # characters of a text that are looked at
_SHOWN_KIND = re.compile(r"[A-Za-z_-]{1,40}")  # no value of a row looks so that must not be shown
# The end of what opens thoughts, as `<think>` or `Reasoning:`, and what may begin after them.
_OPENS = re.compile(r"(?:[>\]】:：]|\*\*|(?:\A|\n)#[^\n]{1,60})\s*\Z")
_CLOSES = re.compile(r"\s*(?:[<\[【#]|\*\*|[^\n.:：]{1,40}[:：])")
_MARK_CHARS = 80  # before a thought
_FEWEST = 10  # characters of a thought: shorter ones stand in answers by chance
_TYPE = re.compile(r"(?:\w+_)?type|kind")
_LARGE = 10_000  # characters of a file: more than an icon has
_NOTHING = ("", "[]", "{}", "null", "None")


class SignRows(TypedDict):
    """How many rows have a sign, and the first; `what` it holds, where there is more to say."""

    rows: int
    file: str
    row: int
    what: str


Found = dict[str, dict[int, str]]  # by sign the rows, each with what was found
_Mark = TypeVar("_Mark", bound=Hashable)
_TOLD_KINDS: Final = MEDIA_KINDS | THOUGHT_KINDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What a gate says of a sign: its name, the share of rows that it lets pass, and why."""

    gate: str
    most: float
    why: str

    @property
    def limit(self) -> str:
        """Return the share as gates name it."""
        return f"at most {format_whole_percent(self.most)}" if self.most else "none"


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
    "thoughts": Sign(
        gate="thoughts without a mark",
        most=0.0,
        why="records join thoughts to answers as if they were one text",
    ),
    "conversations": Sign(
        gate="conversations in one text",
        most=MOST_TRANSCRIPTS,
        why="records hold a whole conversation in one text",
    ),
    "embedded": Sign(
        gate="files inside texts",
        most=0.01,
        why="records hold a file as base64 (data:...;base64,...) in a text",
    ),
    "embedded_large": Sign(
        gate="large files inside texts",
        most=0.0,
        why="records hold a large file as base64 (data:...;base64,...) in a text",
    ),
}


def exceeds(sign: str, rows: int, whole: int, *, documents: bool) -> bool:
    """Return whether so many rows of a whole are more than the gate of a sign lets pass."""
    if sign == "conversations" and documents:  # documents that all are conversations are meant so
        rows = min(rows, whole - rows)
    return rows > SIGNS[sign].most * whole


def sign_text(name: str, found: SignRows) -> str:
    """Return a sign for people: how many rows have it, the limit, and the first place."""
    sign, rows = SIGNS[name], count_text(found["rows"], "row")
    what = f", {found['what']}" if found["what"] else ""
    place = f"the first: {found['file']} row {found['row']}{what}"
    return f"{sign.gate}: {rows} (limit: {sign.limit}): {sign.why}; {place}"


class SignFinder:
    """Finds the signs of rows, and of the records that a mapping makes of them, batch by batch.

    A mapping joins fields that are named for thoughts in every row alike: `named` asks for them,
    which is for samples.
    """

    def __init__(self, mapping: Mapping, *, named: bool = False) -> None:
        self.found: Found = {}  # of the batch that was looked at last
        self._beside: Found = {}
        self._thoughts: dict[int, list[str]] = {}  # by row
        self._chat, self._grouped = mapping.kind == "sft", mapping.group is not None
        self._taken = taken_places(mapping)
        self._tools = taken_places(mapping, only="/tools")
        self._named = named

    def look(self, batch: Batch) -> None:
        """Look at the rows of a batch; of a table at those alone that may have a sign."""
        self.found, self._beside, self._thoughts = {}, {}, {}
        rows, values = batch.rows, batch.values
        if batch.table is not None:
            places = candidate_rows(batch.table, self._taken, grouped=self._grouped)
            rows = [batch.rows[place] for place in places]
            values = batch.take(places).values if places else []
        waiting = [_Level([*values], [*rows], self._taken, "")]
        while waiting:
            level = waiting.pop()
            for kind, same in level.parts(type):
                if kind is dict:
                    waiting += self._look_at_objects(same)
                elif kind is list:
                    waiting.append(same.inside())
                elif kind is str and self._chat:
                    self._look_at_names(same)

    def add(self, made: UnifiedBatch | UnifiedTable) -> None:
        """Add the signs of some of its records, and of their rows."""
        for row, text in candidate_texts(*_texts_of(made, self._chat), chat=self._chat):
            for sign in _text_signs(text, chat=self._chat):
                _note(self.found, sign, row)
        if self._thoughts and self._chat:
            records = made.records if isinstance(made, UnifiedBatch) else made.table.to_pylist()
            for row, record in zip(map(int, made.rows), records, strict=True):
                if any(_joins_thoughts(record, self._thoughts.get(row, ()))):
                    _note(self.found, "thoughts", row)
        converted = set(map(int, made.rows)) if self._beside else set()
        for sign, rows in self._beside.items():
            for row in converted & rows.keys():
                _note(self.found, sign, row, rows[row])

    def _look_at_names(self, level: "_Level") -> None:
        """Look for texts that are names of media; what is taken is looked at in the records."""
        if level.place.whole or KIND.fullmatch(level.name):
            return
        for row, text in zip(level.rows, level.values, strict=True):
            if ("." in text or ":" in text) and is_media_name(level.name, text):
                _note(self._beside, "media", row)

    def _look_at_objects(self, level: "_Level") -> Iterator["_Level"]:
        """Look at objects; gives the values that are inside, by their keys."""
        for keys, same in level.parts(tuple):
            for key in keys:
                column = [value[key] for value in same.values]
                if KIND.fullmatch(key) and not _TOLD_KINDS.isdisjoint(map(str, column)):
                    self._hear_kinds(same, key)
                yield _Level(column, same.rows, same.place.at(key), key, listed=same.listed)
            extra = [key for key in keys if same.place.has_beside(key)] if self._chat else ()
            for row, value in zip(same.rows, same.values, strict=True) if extra else ():
                self._look_beside(row, value, extra, same)

    def _hear_kinds(self, level: "_Level", key: str) -> None:
        """Look at objects that may say that they are media, or thoughts."""
        alone = sum(level.place.at(one).texts for one in level.values[0]) == 1
        for row, value in zip(level.rows, level.values, strict=True):
            kind = str(value[key])
            if kind in MEDIA_KINDS and key == "type" and len(value) > 1:
                _note(self._beside, "media", row)
            elif kind in THOUGHT_KINDS and alone:
                self._add_thoughts(row, value, level.place)

    def _add_thoughts(self, row: int, value: Json, place: Taken) -> None:
        texts = (one.strip() for one in _taken_texts(value, place) if isinstance(one, str))
        self._thoughts.setdefault(row, []).extend(one for one in texts if len(one) >= _FEWEST)

    def _look_beside(
        self, row: int, value: dict[str, Json], keys: Sequence[str], level: "_Level"
    ) -> None:
        """Look at what an object holds beside what is taken, and at thoughts that are."""
        place = level.place
        extra = sorted(key for key in keys if key not in place.below)
        for key in keys:
            if key in place.below and self._named:
                self._add_thoughts(row, value[key], place.below[key])
            elif value[key] is True and THOUGHTS.fullmatch(key):
                self._add_thoughts(row, value, place)
        what = ""
        if place.top:
            held = [key for key in extra if _holds_parts(value[key])]
            what = held[0] if held and not _takes(value, self._tools) else ""
        elif level.listed:
            what = _passed_over(extra, value, place)
        if what:
            _note(self._beside, "passed_over", row, what if _SHOWN_KIND.fullmatch(what) else "")


class _Level(NamedTuple):
    """Values at one place of some rows, the row of each, and the key that leads there."""

    values: list[Json]
    rows: list[int]
    place: Taken
    name: str
    listed: bool = False  # they are elements of lists, or inside of some

    def parts(self, mark: Callable[[Json], _Mark]) -> Iterator[tuple[_Mark, "_Level"]]:
        """Yield the values of each mark; most often all have the same."""
        parts: dict[_Mark, _Level] = dict.fromkeys(map(mark, self.values), self)
        if len(parts) > 1:
            parts = {one: self._replace(values=[], rows=[]) for one in parts}
            for row, value in zip(self.rows, self.values, strict=True):
                own = parts[mark(value)]
                own.values.append(value)
                own.rows.append(row)
        yield from parts.items()

    def inside(self) -> "_Level":
        """Return the elements of lists."""
        rows = [row for row, value in zip(self.rows, self.values, strict=True) for _ in value]
        elements = list(chain.from_iterable(self.values))
        return _Level(elements, rows, self.place.each or NOWHERE, self.name, listed=True)


def _note(found: Found, sign: str, row: int, what: str = "") -> None:
    known = found.setdefault(sign, {})
    known[row] = min(what, known.get(row, what))  # however rows are batched


def _passed_over(keys: list[str], value: dict[str, Json], place: Taken) -> str:
    """What an element of a walked list holds that is not taken, by its kind or its key."""
    kinds = (value[key] for key in value if _TYPE.fullmatch(key))
    kind = next((one for one in kinds if isinstance(one, str)), "")
    held = [key for key in keys if _holds(value[key])]
    if not held or kind in MEDIA_KINDS:  # they have a sign of their own
        return ""
    if _takes(value, place):
        return next(filter(CARRIES.fullmatch, held), "")
    for key in held:
        running = isinstance(value[key], list | dict) or len(value[key].split()) > 1
        if kind or running or CARRIES.fullmatch(key):
            return kind or key
    return ""


def is_media_name(name: str, text: str) -> bool:
    """Return whether a text is nothing but the name or the data of a media file."""
    words = text[:_LONGEST_REFERENCE].split(maxsplit=1)
    if len(words) != 1 or not ("." in words[0] or ":" in words[0]):
        return False
    return bool(MEDIA_FILE.search(words[0])) and not DECORATION.search(name)


def _taken_texts(value: Json, taken: Taken) -> Iterator[Json]:
    """What is taken of a value as texts."""
    if value is None or not taken.texts:
        return
    if value.__class__ is dict and (taken.below or taken.each):
        for key, one in value.items():
            yield from _taken_texts(one, taken.at(key))
    elif value.__class__ is list and taken.each:
        for one in value:
            yield from _taken_texts(one, taken.each)
    elif taken.whole:
        yield value


def _takes(value: Json, place: Taken) -> bool:
    """Whether a text is taken from somewhere in a value."""
    return any(
        one.strip() if isinstance(one, str) else _holds(one) for one in _taken_texts(value, place)
    )


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


# --- records


def _texts_of(made: UnifiedBatch | UnifiedTable, chat: bool) -> tuple[pa.Array, Places]:
    """The texts of records, and the row of each."""
    if isinstance(made, UnifiedTable):
        texts, owners = made.table.column(0), made.rows
        if not chat:
            return texts, owners
        parents = pc.list_parent_indices(texts).to_numpy()
        return pc.struct_field(texts.flatten(), "content"), owners[parents]
    said = [record_texts(record) for record in made.records]
    owners = np.repeat(np.array(made.rows, np.int64), [len(texts) for texts in said])
    return pa.array([text for texts in said for text in texts], pa.large_string()), owners


def _text_signs(text: str, *, chat: bool) -> Iterator[str]:
    """The signs of a text of a record."""
    head = text[:_LOOK]
    if chat and (_MARK.search(text) or MEDIA_FILE.search(head)):
        yield "media"
    if is_transcript(head):
        yield "conversations"
    for one in EMBEDDED.finditer(text) if EMBEDS in text else ():
        yield "embedded"
        if len(one[1]) >= _LARGE:
            yield "embedded_large"


def _joins_thoughts(record: Record, thoughts: Sequence[str]) -> Iterator[bool]:
    """Whether each thought is a part of what an assistant says, without marks around it."""
    for role, messages in groupby(record["messages"], itemgetter("role")):
        said = "\n".join(message["content"] for message in messages)
        for thought in thoughts if role == "assistant" else ():
            before, found, after = said.partition(thought)
            joined = found and (before.strip() or after.strip())
            opened = thought[0] in "<[" or _OPENS.search(before[-_MARK_CHARS:])
            closed = thought[-1] in ">]" or _CLOSES.match(after)
            yield bool(joined and not (opened and closed))
