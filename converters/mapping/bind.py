"""Bind a mapping document to sampled rows: settle bare strings and roles, once."""

import difflib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path as File
from typing import NoReturn

from ingot.converters import paths
from ingot.converters.errors import MappingError, Problem
from ingot.converters.json_yaml import found_text, json_fault, pointer_to, violations
from ingot.converters.mapping.document_reader import short_json
from ingot.converters.mapping.language import Layout, Mapping, Value, to_document
from ingot.converters.mapping.parser import LiteralRule, Parser
from ingot.converters.rows import Json, MappingDocument, RowError
from ingot.converters.sources.documents.kinds import ISO_639_1

__all__ = ["ISO_639_1", "Mapping", "bind", "load_mapping", "parse", "read_mapping", "to_document"]

_USER_NAMES = ("question", "input", "prompt", "query", "user", "human", "problem", "问题")
_ASSISTANT_NAMES = ("answer", "response", "output", "completion", "assistant", "gpt", "回答")
_SYSTEM_NAMES = ("system", "instruction", "persona", "系统")
_OBSERVED_LIMIT = 2000
_DEPTH_LIMIT = 12


def observed_paths(values: Iterable[Json]) -> tuple[str, ...]:
    """Return the paths that occur in the rows, in order of first appearance; at most 2,000."""
    seen: dict[tuple[str, ...], None] = {}

    def walk(value: Json, segments: tuple[str, ...]) -> None:
        if len(seen) >= _OBSERVED_LIMIT or len(segments) > _DEPTH_LIMIT:
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                if len(seen) >= _OBSERVED_LIMIT:
                    return
                here = (*segments, key)
                seen.setdefault(here)
                if isinstance(inner, dict | list):
                    walk(inner, here)
        elif isinstance(value, list):
            here = (*segments, "[*]")
            seen.setdefault(here)
            for inner in value[:20]:
                walk(inner, here)

    for value in values:
        walk(value, ())
    return tuple(dict.fromkeys(paths.join_path(*segments) for segments in seen))


def nearest_path(text: str, observed: Sequence[str]) -> str | None:
    """Return the observed path that looks most like a text, None if none does."""
    by_folded = {path.casefold(): path for path in reversed(observed)}
    folded = text.casefold()
    close = difflib.get_close_matches(folded, by_folded, 1, cutoff=0.6)
    if close:
        return by_folded[close[0]]
    last = folded.rsplit(".", 1)[-1]
    ending = [path for path in observed if path.casefold().rsplit(".", 1)[-1] == last]
    return min(ending, key=len, default=None)


def resolves(path: paths.Path, values: Iterable[Json]) -> bool:
    """True if the path gives a hit (null is one) in at least one row."""
    for value in values:
        with suppress(RowError):
            if path.nodes(paths.Node(value)):
                return True
    return False


class LiteralBinder:
    """What a bare string under `source`, `language` or `system` of version 1 means."""

    def __init__(self, values: Sequence[Json] | None) -> None:  # None: no rows to look in
        self.known, self.values = values is not None, values or ()
        self.warnings: list[str] = []

    @cached_property
    def observed(self) -> tuple[str, ...]:
        """Return the paths of the rows, looked for where a text is none of them."""
        return observed_paths(self.values)

    def __call__(self, key: str, text: str, pointer: str) -> Value | Problem:
        """A path if it resolves in a sampled row, else a literal by the rule of its key."""
        literal = _may_be_literal(key, text)
        try:
            path = paths.compile_path(text)
        except paths.PathSyntaxError as error:
            if literal:
                return Value(kind="literal", literal=text)
            expected = f"a path ({error.problem})"
            return Problem(pointer, "bad_path", expected, text, error.nearest)
        if not self.known:
            return Value(kind="literal", literal=text)
        if resolves(path, self.values):
            if literal and key != "source":
                warning = f"{pointer}: {text!r} is a column, so it is read as a path, not a literal"
                self.warnings.append(warning)
            return Value(kind="path", path=path)
        if literal and not (key == "source" and self._near_miss(text)):
            return Value(kind="literal", literal=text)
        nearest = nearest_path(text, self.observed)
        expected = f"a path that exists in the data, or {_LITERALS[key]}"
        return Problem(pointer, "unresolved_path", expected, text, nearest)

    def _near_miss(self, text: str) -> bool:
        folded = text.casefold()
        observed = {path.casefold() for path in self.observed}
        return bool(difflib.get_close_matches(folded, observed, 1, cutoff=0.8))


_LITERALS = {
    "language": "an ISO 639-1 code or mix",
    "source": "a bare name that is not nearly a column's",
    "system": "a text with a blank in it",
}


def _may_be_literal(key: str, text: str) -> bool:
    if key == "language":
        return text in ISO_639_1 or text == "mix"
    if key == "source":
        return "." not in text and "[" not in text and "\n" not in text
    return any(c.isspace() for c in text.strip())


def infer_roles(
    document: MappingDocument, values: Sequence[Json]
) -> tuple[MappingDocument, list[str]]:
    """Fill in the roles that a version 1 document leaves out, by field name, else by position."""
    messages = document.get("messages")
    if not isinstance(messages, list):
        return document, []
    notes: list[str] = []
    filled = []
    for number, message in enumerate(messages):
        absent = isinstance(message, dict) and message.get("role") in (None, "")
        if absent and "content" in message:
            role = _guess_role(message["content"], number == len(messages) - 1, values)
            notes.append(f"/messages/{number}/role: {role} inferred from {message['content']!r}")
            message = {**message, "role": role}
        filled.append(message)
    return {**document, "messages": filled}, notes


def _guess_role(content: Json, last: bool, values: Sequence[Json]) -> str:
    first = next(iter(content), None) if isinstance(content, list) else content
    if not isinstance(first, str):
        return "assistant" if last else "user"
    name = first.casefold().rsplit(".", 1)[-1]
    if any(known in name for known in _SYSTEM_NAMES):
        return "system" if "system" in name or _is_nearly_constant(first, values) else "user"
    if any(known in name for known in _ASSISTANT_NAMES):
        return "assistant"
    if any(known in name for known in _USER_NAMES):
        return "user"
    return "assistant" if last else "user"


def _is_nearly_constant(text: str, values: Sequence[Json]) -> bool:
    """True if nearly all rows hold the same text there."""
    try:
        path = paths.compile_path(text)
        hits = [path.find(paths.Node(value)) for value in values]
        found = [tuple(h if isinstance(h, str) else found_text(h) for h in held) for held in hits]
    except (paths.PathSyntaxError, RowError):
        return False
    return len(found) > 1 and len(set(found)) <= max(1, len(found) // 20)


# Deeper and longer than any mapping that a person can read, and far from what a machine cannot.
MAX_LEVELS = 40
MAX_BYTES = 1 << 20  # of a file
MAX_PARTS = 5_000  # values: paths, texts, lists, objects
_TABLES = ("map", "split", "in", "not_in", "files", "columns", "json_fields", "provenance")
_MAX_BITS = 4096


def parse(document: Json, *, where: str) -> MappingDocument:
    """Check a document without data."""
    _, _, problems = _parse_document(document, (), LiteralBinder(None))
    if problems:
        raise MappingError(where, tuple(problems))
    return dict(document)


def read_tree(document: Json) -> Mapping:
    """Return the tree of a document, for what is shown or asked of it: wrong parts are left out."""
    return _parse_document(document, (), LiteralBinder(None))[0]


def bind(document: Json, values: Sequence[Json] = (), *, where: str = "mapping") -> Mapping:
    """Return the mapping that a document means for these rows."""
    binder = LiteralBinder(values)
    mapping, notes, problems = _parse_document(document, values, binder)
    if problems:
        raise MappingError(where, tuple(problems))
    return replace(mapping, warnings=(*notes, *binder.warnings))


def _parse_document(
    document: Json, values: Sequence[Json], literal_rule: LiteralRule
) -> tuple[Mapping, list[str], list[Problem]]:
    """The mapping, what was inferred, and every problem; with a problem the mapping is partial."""
    parser = Parser(literal_rule)
    parser.problems += [*_unwritable_problems(document)] or _size_problems(document)
    notes: list[str] = []
    if parser.problems or not isinstance(document, dict):
        if not parser.problems:
            parser.fail("", "a JSON object", document)
        return Mapping(kind="irrelevant", outer=Layout()), notes, parser.problems
    if "version" not in document:
        document, notes = infer_roles(document, values)
        mapping = parser.version1(document)
    else:
        if document["version"] != 2 or isinstance(document["version"], bool):
            parser.fail("/version", "2 (a file without version is version 1)", document["version"])
        mapping = parser.version2(document)
    # The schema is the contract: should the parser ever be laxer, the schema still has the word.
    if not parser.problems:
        for pointer, message in _schema_violations(json.dumps(document)):
            parser.problems.append(Problem(pointer, "schema", message[:200], short_json(document)))
    return mapping, notes, parser.problems


@lru_cache(maxsize=64)  # a document is bound to several samples and parsed in between
def _schema_violations(text: str) -> list[tuple[str, str]]:
    return violations("mapping", json.loads(text))


def _size_problems(document: Json) -> list[Problem]:
    """More parts than a mapping may have; a table of values or names is one."""
    count, waiting = 0, [document]
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting += [one for key, one in value.items() if key not in _TABLES]
            count += str(value.get("template", "")).count("{{")
        elif isinstance(value, list):
            waiting += value
    if count <= MAX_PARTS:
        return []
    return [Problem("", "too_large", f"at most {MAX_PARTS:,} parts", f"{count:,}")]


def _unwritable_problems(document: Json) -> Iterator[Problem]:
    """What no mapping file can hold: no end of levels, numbers and texts that JSON has not."""
    waiting: list[tuple[Json, str, int]] = [(document, "", 0)]
    while waiting:
        value, pointer, level = waiting.pop()
        if level > MAX_LEVELS:
            yield Problem("", "schema", f"at most {MAX_LEVELS} levels of lists and objects", "more")
            return
        if isinstance(value, dict):
            inner = [(v, pointer_to(pointer, k), level + 1) for k, v in value.items()]
            waiting += [(key, pointer, level + 1) for key in value]
            waiting += reversed(inner)
        elif isinstance(value, list):
            inner = [(v, pointer_to(pointer, i), level + 1) for i, v in enumerate(value)]
            waiting += reversed(inner)
        elif wanted := _json_mistake(value):
            place = pointer.encode(errors="backslashreplace").decode()
            got = "a longer one" if isinstance(value, int) else ascii(value)[:80]
            yield Problem(place, "schema", wanted, got)


def _json_mistake(value: Json) -> str | None:
    """What a scalar should be, where it is nothing that a JSON file in UTF-8 can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"a number of at most {_MAX_BITS} bits"
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "valid Unicode (a lone surrogate is not)"
    return None


def load_mapping(path: File) -> MappingDocument:
    """Read a mapping file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = str(error.strerror or error)
        problem = Problem("", "unreadable", "a mapping file", reason[:1].lower() + reason[1:])
        raise MappingError(str(path), (problem,)) from error
    return read_mapping(data, where=str(path))


def read_mapping(data: bytes, *, where: str) -> MappingDocument:
    """Return the document that the bytes of a mapping file hold."""
    if len(data) > MAX_BYTES:
        problem = Problem("", "too_large", f"at most {MAX_BYTES >> 20} MiB", "more")
        raise MappingError(where, (problem,))
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = json_fault(error) if isinstance(error, ValueError) else "lists nested too deep"
        problem = Problem("", "bad_json", "a mapping in JSON", reason)
        raise MappingError(where, (problem,)) from error
    return parse(document, where=where)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
