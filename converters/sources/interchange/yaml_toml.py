"""YAML and TOML documents as JSON values: held whole, and refused beyond a size.

YAML is read from the events of its parser, with the types of YAML 1.2 (`no`, `12:30` and dates are
text): nothing is constructed by tags, aliases share what they stand for, and what they would expand
to is bounded.
"""

import base64
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import map_leaves
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceSpec
from ingot.converters.sources.file_kinds import file_ending
from ingot.converters.sources.formats.detection import TextHead
from ingot.converters.sources.formats.json_documents import find_root_rows
from ingot.converters.sources.formats.json_rows import RowRoot
from ingot.converters.sources.formats.row_chunks import (
    MAX_DEPTH,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    is_deep,
    join_parts,
    row_excerpt,
)

MAX_DOCUMENT: Final = {"yaml": 16 << 20, "toml": 4 << 20}  # bytes of a file
_EXPANSION: Final = 16  # times its size that the aliases of a document may stand for
_FREE: Final = 1 << 20  # bytes that they always may
_LEAST_RECORDS: Final = 3
_MOST_KEYS: Final = 5000
_ALIKE: Final = 0.5  # of the keys of records
_TAG: Final = "tag:yaml.org,2002:"
_COLLECTIONS: Final = ("map", "seq", "set", "omap", "pairs")
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
# A number that begins with zeros is text: the zeros belong to it.
_INT = re.compile(r"[-+]?(?:0|[1-9]\d{0,399})|0x[0-9a-fA-F]{1,300}|0o[0-7]{1,400}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.\d{1,400}|(?:0|[1-9]\d{0,399})(?:\.\d{0,400})?)(?:[eE][-+]?\d{1,9})?", re.ASCII
)
# Keys joined by dots, for which tomllib takes the square of their number.
_DOTTED = re.compile(
    r"(?<![\w-])(?:(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+)++", re.ASCII
)
_NON_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# The rows of a document with their numbers that are not finite; whether they are its elements.
_Document = tuple[list[tuple[Json, int]], bool]


@dataclass(slots=True)
class _Open:
    """A list or mapping that is open."""

    value: Any
    anchor: str | None
    size: int = 1
    key: str | None = None
    merged: list[dict[str, Json]] = field(default_factory=list)


class _YamlReader:
    """Makes values of the events of one file: per document its items, where it is a list."""

    def __init__(self, text: str) -> None:
        self._most = _EXPANSION * len(text) + _FREE
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Json, int, str | None]] = {}
        self._fault: BrokenRow | None = None
        self._non_finite = 0
        self.items: list[tuple[Json, int]] = []
        self.is_list = False

    def take(self, event: Any) -> None:  # noqa: ANN401 - of yaml, which is not imported here
        """Take an event of a value."""
        kind = type(event).__name__
        if kind == "ScalarEvent":
            text = event.value
            self._put(self._scalar(event), len(text) + 1, event.anchor, text)
        elif kind == "AliasEvent":
            none = (None, 1, None)
            value, size, text = self._anchors.get(event.anchor, none)
            if event.anchor not in self._anchors:
                self._break(f"the alias *{event.anchor} stands for nothing before it", "")
            self._put(value, size, None, text)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            if event.tag and event.tag.removeprefix(_TAG) not in _COLLECTIONS and event.tag != "!":
                self._break(f"the tag {event.tag[:60]} is unknown", "")
            value = [] if kind == "SequenceStartEvent" else {}
            self.is_list = isinstance(value, list) if not self._stack else self.is_list
            self._stack.append(_Open(value, event.anchor))
            if len(self._stack) > MAX_DEPTH:
                self._break(f"nested more than {MAX_DEPTH} levels deep", "")
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            one = self._stack.pop()
            for merged in one.merged:
                one.value.update({k: v for k, v in merged.items() if k not in one.value})
            self._put(one.value, one.size, one.anchor, None)

    def end_document(self) -> _Document:
        """Return the document: its elements where it is a list of objects, else itself."""
        (items, is_list), self.items, self.is_list = (self.items, self.is_list), [], False
        self._anchors.clear()
        values = [value for value, _ in items]
        if not is_list or (items and _are_objects(values)):
            return items, is_list
        broken = next((value for value in values if type(value) is BrokenRow), None)
        return [(values if broken is None else broken, sum(count for _, count in items))], False

    def _break(self, detail: str, found: str) -> None:
        self._fault = self._fault or BrokenRow(detail, row_excerpt(found))

    def _put(self, value: Json, size: int, anchor: str | None, text: str | None) -> None:
        """Put a value into what is open; `text` is how a scalar is written."""
        if anchor is not None:
            self._anchors[anchor] = (value, size, text)
        if self._stack:
            self._add(self._stack[-1], value, size, text)
        if len(self._stack) > self.is_list:
            return
        if self.is_list and not self._stack:  # its end: its items are there
            return
        if size > self._most:
            self._break(f"its aliases stand for more than {_EXPANSION} times its size", "")
        self.items.append((self._fault or value, self._non_finite))
        self._fault, self._non_finite = None, 0

    def _add(self, around: _Open, value: Json, size: int, text: str | None) -> None:
        around.size += size
        if isinstance(around.value, list):
            if not (self.is_list and len(self._stack) == 1):  # those are rows
                around.value.append(value)
        elif around.key is None:
            if text is None:
                self._break("a key that is a list or a mapping", "")
            around.key = text or ""
            if around.key in around.value:
                self._break(f"the key {around.key[:60]!r} occurs twice", "")
        elif around.key == "<<":
            merged = value if isinstance(value, list) else [value]
            if _are_objects(merged):
                around.merged += merged
            else:
                self._break("a merge (<<) of something that is no mapping", "")
            around.key = None
        else:
            around.value[around.key] = value
            around.key = None

    def _scalar(self, event: Any) -> Json:  # noqa: ANN401
        text: str = event.value
        if event.tag is None:
            return self._plain(text) if event.implicit[0] else text
        tag = event.tag.removeprefix(_TAG)
        if tag == "binary":
            try:
                return base64.b64decode(text, validate=False).decode()
            except ValueError:
                self._break("binary that is no text", text)
                return None
        if tag in ("int", "float", "bool", "null"):
            return self._plain(text)
        if tag not in ("str", "timestamp", "!"):
            self._break(f"the tag {event.tag[:60]} is unknown", text)
        return text

    def _plain(self, text: str) -> Json:
        if _NULL.fullmatch(text):
            return None
        if found := _BOOL.fullmatch(text):
            return found[1] is not None
        if _INT.fullmatch(text):
            return int(text, 0)
        if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
        if _NON_FINITE.fullmatch(text):
            self._non_finite += 1
            return None
        return text


def _are_objects(values: Sequence[Json]) -> bool:
    return all(isinstance(value, dict | BrokenRow) for value in values)


def _yaml_documents(text: str, where: str) -> Iterator[_Document]:
    """Yield the rows of each document, those before the damage first. Raises SourceError."""
    import yaml

    reader = _YamlReader(text)
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            reader.take(event)
            if isinstance(event, yaml.DocumentEndEvent):
                yield reader.end_document()
    except yaml.YAMLError as error:
        if reader.is_list and _are_objects([value for value, _ in reader.items]):
            yield reader.items, True
        mark = getattr(error, "problem_mark", None)
        line = f", at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SourceError(where, f"no YAML: {problem}{line}", "correct the file there") from error


def _load_toml(text: str, where: str) -> Iterator[_Document]:
    """Yield the one value of a TOML file as a row. Raises SourceError."""
    import tomllib

    non_finite = 0

    def to_json(value: Any) -> Json:  # noqa: ANN401
        nonlocal non_finite
        if isinstance(value, float) and not math.isfinite(value):
            non_finite += 1
            return None
        return value if isinstance(value, str | int | float) else value.isoformat()

    if any(found[0].count(".") > _MOST_KEYS for found in _DOTTED.finditer(text)):
        raise SourceError(where, f"a key of more than {_MOST_KEYS:,} keys joined by dots")
    try:
        value = map_leaves(tomllib.loads(text), to_json)
    except ValueError as error:
        raise SourceError(where, f"no TOML: {error}", "correct the file there") from error
    except RecursionError as error:
        raise SourceError(where, "no TOML that can be read: nested too deep") from error
    deep = BrokenRow(f"nested more than {MAX_DEPTH} levels deep", row_excerpt(text))
    yield [(deep if is_deep(value) else value, non_finite)], False


_LOADERS: Final[dict[str, Callable[[str, str], Iterator[_Document]]]] = {
    "yaml": _yaml_documents,
    "toml": _load_toml,
}
_ENDINGS: Final = {"yaml": "yaml", "yml": "yaml", "toml": "toml"}


def read_documents(
    form: str, parts: Iterator[bytes], root: RowRoot | None, where: str, stem: str
) -> Iterator[RowChunk]:
    """The rows of a YAML or TOML file, of each document what `root` finds. Raises SourceError."""
    data = join_parts(parts, MAX_DOCUMENT[form])
    if isinstance(data, BrokenRow):
        hint = "split it, or write it as JSON Lines first"
        problem = f"{form.upper()} of more than {MAX_DOCUMENT[form] >> 20} MiB, which is held whole"
        raise SourceError(where, problem, hint)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        problem = f"bytes that are no text in the file's encoding, at byte {error.start}"
        raise SourceError(where, problem, "state `source.encoding`") from error
    for rows, are_elements in _LOADERS[form](text, where):
        broken = next((value for value, _ in rows if type(value) is BrokenRow), None)
        count = sum(count for _, count in rows)
        whole = [value for value, _ in rows] if are_elements or not rows else rows[0][0]
        if root is None:
            yield chunk_of_counted(rows)
        elif root.whole or broken is not None:
            yield replace(chunk_of_counted([(broken or whole, count)]), keys=[stem])
        else:
            for chunk in find_root_rows(whole, root, where):
                yield replace(chunk, non_finite={0: count} if count else {})
                count = 0


def load_tree(form: str, parts: Iterator[bytes], where: str) -> Json:
    """Return the first document of a file, None where it cannot be read."""
    try:
        chunk = next(read_documents(form, parts, None, where, ""), None)
    except SourceError:
        return None
    return chunk.values[0] if chunk and len(chunk.values) == 1 else None


def yaml_facts(head: TextHead, spec: SourceSpec, where: str) -> FileFacts | None:
    """Return the facts of a YAML file: one that is stated, or that looks like records."""
    return _tree_facts("yaml", head, spec, where)


def toml_facts(head: TextHead, spec: SourceSpec, where: str) -> FileFacts | None:
    """Return the facts of a TOML file: one that is stated, or that looks like records."""
    return _tree_facts("toml", head, spec, where)


def _tree_facts(form: str, head: TextHead, spec: SourceSpec, where: str) -> FileFacts | None:
    stated = spec.format == form
    if not stated and (spec.format or _ENDINGS.get(file_ending(head.name)) != form):
        return None
    text = head.data.decode("utf-8", "replace")
    rows: list[Json] = []
    try:
        for found, _ in _LOADERS[form](text if head.whole else _whole_records(text), where):
            rows += [value for value, _ in found]
    except SourceError:
        if not stated:
            return None
    if not (stated or look_like_records(rows)):
        return None
    objects = [row for row in rows if isinstance(row, dict)]
    single = len(rows) == 1 == len(objects)
    shape = frozenset(key for row in objects for key in row)
    return replace(head.base, format=form, layout="object" if single else "list", shape=shape)


def _whole_records(text: str) -> str:
    """The beginning of a text up to its last element or document."""
    return text[: max(text.rfind("\n- "), text.rfind("\n---"), 0)]


def look_like_records(rows: Sequence[Json]) -> bool:
    """Whether values are objects with common keys, or the one list of such objects in an object."""
    if len(rows) == 1 and isinstance(rows[0], dict) and len(rows[0]) == 1:
        (inner,) = rows[0].values()
        rows = inner if isinstance(inner, list) else ()
    kinds = [frozenset(row) for row in rows if isinstance(row, dict)]
    if len(kinds) < _LEAST_RECORDS or not _are_objects(rows):
        return False
    common, all_keys = frozenset.intersection(*kinds), frozenset().union(*kinds)
    return len(common) > 0 and len(common) >= _ALIKE * len(all_keys)
