"""YAML and TOML documents as JSON values: held whole, and refused beyond a size.

YAML is read from the events of its parser, with the types of YAML 1.2 (`no`, `12:30` and dates are
text): nothing is constructed by tags, aliases share what they stand for, and what they would expand
to is bounded.
"""

import base64
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import map_leaves
from ingot.converters.rows import Json
from ingot.converters.sources.documents.kinds import kind_by_name
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import file_ending
from ingot.converters.sources.formats.detection import TextHead
from ingot.converters.sources.formats.json_documents import find_root_rows
from ingot.converters.sources.formats.json_rows import RowRoot
from ingot.converters.sources.formats.line_kinds import classify_lines
from ingot.converters.sources.formats.row_chunks import (
    MAX_DEPTH,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    is_deep,
    join_parts,
    row_excerpt,
)
from ingot.converters.sources.formats.text import decode_text_row

MAX_DOCUMENT: Final = {"yaml": 16 << 20, "toml": 4 << 20}  # bytes of a file
_EXPANSION: Final = 16  # times its size that the aliases of a document may stand for
_FREE: Final = 1 << 20  # bytes that they always may
_MOST_KEYS: Final = 5000
_FEWEST_KEYS: Final = 2  # of a record that is a file
_FEWEST_RECORDS: Final = 10  # fewer files of one shape may be settings
_TAG: Final = "tag:yaml.org,2002:"
_COLLECTIONS: Final = ("map", "seq", "set", "omap", "pairs", "!")
_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
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
_TOP_KEY = re.compile(r"^[\w-]{1,80}(?=\s{0,9}[:=]\s)", re.MULTILINE)
_DEEP: Final = BrokenRow(f"nested more than {MAX_DEPTH} levels deep", "")
# The rows of a document with their numbers that are not finite; whether they are its elements.
_Document = tuple[list[tuple[Json, int]], bool]


class _YamlReader:
    """Makes values of the events of one document."""

    def __init__(self, events: Iterator[Any], size: int) -> None:
        self._events, self._most = events, _EXPANSION * size + _FREE
        self._anchors: dict[str, tuple[Json, int]] = {}
        self._size = 0
        self._fault: BrokenRow | None = None
        self._non_finite = 0

    def row(self, event: Any) -> tuple[Json, int]:  # noqa: ANN401 - of yaml, as in all of these
        """Return the value that begins with an event, and its numbers that are not finite."""
        self._fault, self._non_finite = None, 0
        value = self._value(event)
        return self._fault or value, self._non_finite

    def children(self) -> Iterator[Any]:
        """Yield the first events of all that is in the list or mapping that is open."""
        while not type(event := next(self._events)).__name__.endswith("EndEvent"):
            yield event

    def _break(self, detail: str, sign: str = "") -> None:
        self._fault = self._fault or BrokenRow(detail, row_excerpt(sign))

    def _value(self, event: Any) -> Json:  # noqa: ANN401
        kind, before = type(event).__name__, self._size
        if kind == "AliasEvent":
            return self._alias(event.anchor)
        self._size += len(getattr(event, "value", "")) + 1
        value = self._scalar(event) if kind == "ScalarEvent" else self._collection(event, kind)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _alias(self, name: str) -> Json:
        value, size = self._anchors.get(name, (None, 0))
        if name not in self._anchors:
            self._break(f"the alias *{name} stands for nothing before it")
        if self._size + size > self._most:
            self._break(f"its aliases stand for more than {_EXPANSION} times its size")
            return None
        self._size += size
        return value

    def _collection(self, event: Any, kind: str) -> Json:  # noqa: ANN401
        if event.tag and event.tag.removeprefix(_TAG) not in _COLLECTIONS:
            self._break(f"the tag {event.tag[:60]} is unknown")
        if kind == "SequenceStartEvent":
            return [self._value(child) for child in self.children()]
        value: dict[str, Json] = {}
        merged: list[Json] = []
        for child in self.children():
            read = self._value(child)
            key = getattr(child, "value", read)  # of a scalar how it is written
            inner = self._value(next(self._events))
            if not isinstance(key, str):
                self._break("a key that is a list or a mapping")
            elif key == "<<":
                merged += inner if isinstance(inner, list) else [inner]
            elif key in value:
                self._break(f"the key {key[:60]!r} occurs twice")
            else:
                value[key] = inner
        if not _are_objects(merged):
            self._break("a merge (<<) of something that is not a mapping")
            return value
        for part in merged:
            value.update({key: inner for key, inner in part.items() if key not in value})
        return value

    def _scalar(self, event: Any) -> Json:  # noqa: ANN401
        text: str = event.value
        tag = (event.tag or "").removeprefix(_TAG)
        if tag in ("int", "float", "bool", "null") or (not tag and event.implicit[0]):
            return self._plain(text)
        if tag == "binary":
            try:
                return base64.b64decode(text, validate=False).decode()
            except ValueError:
                self._break("binary that is no text", text)
        elif tag not in ("", "str", "timestamp", "!"):
            self._break(f"the tag {event.tag[:60]} is unknown", text)
        return text

    def _plain(self, text: str) -> Json:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.fullmatch(text):
            return int(text, 0)
        if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
        if _NON_FINITE.fullmatch(text):
            self._non_finite += 1
            return None
        return text


def _are_objects(values: Iterable[Json]) -> bool:
    return all(isinstance(value, dict | BrokenRow) for value in values)


def _yaml_documents(text: str, where: str) -> Iterator[_Document]:
    """Yield the rows of each document, those before the damage first. Raises SourceError."""
    import yaml

    events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rows: list[tuple[Json, int]] = []
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                reader = _YamlReader(events, len(text))
                first = next(events)
                if isinstance(first, yaml.SequenceStartEvent):
                    for child in reader.children():
                        rows.append(reader.row(child))  # those before damage are there then
                    yield _as_rows(rows)
                else:
                    yield [reader.row(first)], False
                rows = []
    except yaml.YAMLError as error:
        if rows and _are_objects(value for value, _ in rows):
            yield rows, True
        mark = getattr(error, "problem_mark", None)
        line = f", at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SourceError(where, f"no YAML: {problem}{line}", "correct the file there") from error


def _as_rows(elements: list[tuple[Json, int]]) -> _Document:
    """Return the elements of a list where they are objects, else the list as a row."""
    values = [value for value, _ in elements]
    if values and _are_objects(values):
        return elements, True
    broken = next((value for value in values if type(value) is BrokenRow), None)
    return [(values if broken is None else broken, sum(count for _, count in elements))], False


def _load_toml(text: str, where: str) -> Iterator[_Document]:
    """Yield the one value of a TOML file as a row. Raises SourceError."""
    import tomllib

    non_finite: list[float] = []

    def to_json(value: Any) -> Json:  # noqa: ANN401
        if isinstance(value, float) and not math.isfinite(value):
            non_finite.append(value)
            return None
        return value if isinstance(value, str | int | float) else value.isoformat()

    if any(match[0].count(".") > _MOST_KEYS for match in _DOTTED.finditer(text)):
        raise SourceError(where, f"a key of more than {_MOST_KEYS:,} keys joined by dots")
    try:
        value = map_leaves(tomllib.loads(text), to_json)
    except ValueError as error:
        raise SourceError(where, f"no TOML: {error}", "correct the file there") from error
    yield [(value, len(non_finite))], False


def _load(form: str, text: str, where: str) -> Iterator[_Document]:
    """Yield the rows of each document of a text. Raises SourceError."""
    try:
        yield from (_yaml_documents if form == "yaml" else _load_toml)(text, where)
    except RecursionError as error:
        problem = f"no {form.upper()} that can be read: nested too deep"
        raise SourceError(where, problem) from error


def read_documents(
    form: str, parts: Iterator[bytes], root: RowRoot | None, where: str, stem: str
) -> Iterator[RowChunk]:
    """Yield the rows of a YAML or TOML file, of each document what `root` finds.

    Raises SourceError.
    """
    data = join_parts(parts, MAX_DOCUMENT[form])
    if isinstance(data, BrokenRow):
        hint = "split it, or write it as JSON Lines first"
        problem = f"{form.upper()} of more than {MAX_DOCUMENT[form] >> 20} MiB, which is held whole"
        raise SourceError(where, problem, hint)
    row = decode_text_row(data)
    if isinstance(row, BrokenRow):
        raise SourceError(where, row.detail, "state `source.encoding`")
    for document, are_elements in _load(form, row["text"], where):
        rows = [(_DEEP if is_deep(value) else value, count) for value, count in document]
        if root is None:
            yield chunk_of_counted(rows)
            continue
        values, count = [value for value, _ in rows], sum(count for _, count in rows)
        broken = next((value for value in values if type(value) is BrokenRow), None)
        whole = broken or (values if are_elements else values[0])
        if root.whole or broken is not None:
            yield replace(chunk_of_counted([(whole, count)]), keys=[stem])
            continue
        for chunk in find_root_rows(whole, root, where):
            yield replace(chunk, non_finite={0: count} if count else {})
            count = 0


def load_tree(form: str, parts: Iterator[bytes], where: str) -> Json:
    """Return the first document of a file, None if it cannot be read."""
    try:
        chunk = next(read_documents(form, parts, None, where, ""), None)
    except SourceError:
        return None
    return chunk.values[0] if chunk and len(chunk.values) == 1 else None


def _tree_facts(form: str, head: TextHead, spec: SourceSpec, where: str) -> FileFacts | None:
    """Return the facts of a file that is stated, or that is named so and looks like records."""
    stated = spec.format == form
    if not stated and (spec.format or file_ending(head.name).replace("yml", "yaml") != form):
        return None
    text = head.data.decode("utf-8", "replace")
    if not head.whole:  # up to the last element or document
        text = text[: max(text.rfind("\n- "), text.rfind("\n---"), 0)]
    rows: list[Json] = []
    with suppress(SourceError):
        for document, _ in _load(form, text, where):
            rows += [value for value, _ in document]
    if not (stated or _look_like_records(rows)):  # one record of many, or settings
        keys = frozenset(rows[0] if len(rows) == 1 and isinstance(rows[0], dict) else ())
        if not head.whole:
            keys = frozenset(_TOP_KEY.findall(head.data.decode("utf-8", "replace")))
        if len(keys) < _FEWEST_KEYS or head.data.lstrip().startswith(b"{"):  # which JSON may be
            return None
        shape = frozenset({classify_lines(head.lines)})
        return replace(head.base, format="text", layout=form, shape=shape, forms=keys)
    objects = [row for row in rows if isinstance(row, dict)]
    single = len(rows) == 1 == len(objects)
    shape = frozenset(key for row in objects for key in row)
    return replace(head.base, format=form, layout="object" if single else "list", shape=shape)


def find_records(files: Sequence[SourceFile], other_names: Iterable[str]) -> list[SourceFile]:
    """Return the files; those that hold one mapping become rows if many have the same shape.

    They have to outnumber all other files, documents among `other_names` included; otherwise they
    are settings and stay texts.
    """
    single = {file.name: file for file in files if file.facts.layout in MAX_DOCUMENT}
    times = Counter(key for file in single.values() for key in file.facts.forms)
    usual = {key for key, count in times.items() if 2 * count > len(single)}
    alike = sum(2 * len(usual & file.facts.forms) > len(usual) for file in single.values())
    rest = len(files) - alike + sum(kind_by_name(name) is not None for name in other_names)
    if len(usual) < _FEWEST_KEYS or alike < max(_FEWEST_RECORDS, rest + 1):
        return list(files)
    return [_as_record(file) if file.name in single else file for file in files]


def _as_record(file: SourceFile) -> SourceFile:
    form, keys = file.facts.layout, file.facts.forms
    facts = replace(file.facts, format=form, layout="object", shape=keys, forms=frozenset())
    return replace(file, facts=replace(facts, guessed=facts.guessed | {"format"}))


yaml_facts = partial(_tree_facts, "yaml")
toml_facts = partial(_tree_facts, "toml")


def _look_like_records(rows: Sequence[Json]) -> bool:
    """Whether three objects or more share half of their keys: all values, or a list in the one."""
    if len(rows) == 1 and isinstance(rows[0], dict) and len(rows[0]) == 1:
        (inner,) = rows[0].values()
        rows = inner if isinstance(inner, list) else ()
    kinds = [frozenset(row) for row in rows if isinstance(row, dict)]
    if len(kinds) < 3 or not _are_objects(rows):
        return False
    common = frozenset.intersection(*kinds)
    return 0 < len(common) >= 0.5 * len(frozenset().union(*kinds))
