"""Check a mapping document and bind it to sampled rows; read one from a file or a JSON field."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path as File
from typing import NoReturn

from ingot.converters.errors import MappingError, Problem
from ingot.converters.json_yaml import FORMS, json_fault, pointer_to, violations
from ingot.converters.mapping.documents.parser import Parser
from ingot.converters.mapping.documents.reader import short_json
from ingot.converters.mapping.documents.version1 import Version1
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import Layout, Mapping
from ingot.converters.rows import Json

# Deeper and longer than any mapping that a person can read, and far from what a machine cannot.
MAX_LEVELS = 40
MAX_BYTES = 1 << 20  # of a file
MAX_PARTS = 5_000  # values: paths, texts, lists, objects
_TABLES = ("map", "split", "in", "not_in", "files", "columns", "json_fields", "provenance")
_MAX_BITS = 4096


def read_tree(document: Json) -> Mapping:
    """Return the tree of a document; its `draft` keeps wrong parts, which are not in the tree."""
    mapping, problems = _parse_document(document, None)
    if problems or "version" not in document:
        stated = {} if document is None else document
        object.__setattr__(mapping, "draft", stated)  # copies have none: no argument sets it
    return mapping


def read_changed(before: Mapping, made: Mapping) -> Mapping:
    """Return a changed mapping, read anew; what the draft before says wrongly stays until mended.

    Parts that the change left as they were stay as they were written.
    """
    stated, changed = before.draft, to_document(made)
    if isinstance(stated, dict) and stated.get("version") == 2:
        known = to_document(replace(before))
        if made.kind == "irrelevant" and stated.keys().isdisjoint(("text", "messages", "any_of")):
            del changed["text"]  # nothing is said of it yet
        changed |= {key: one for key, one in stated.items() if known.get(key) == changed.get(key)}
    return read_tree(changed)


def bind_tree(
    mapping: Mapping, values: Sequence[Json] | None = None, *, where: str = "mapping"
) -> Mapping:
    """Return the mapping that a tree means for these rows, or without any. Raises MappingError."""
    return mapping if mapping.draft is None else bind(mapping.draft, values, where=where)


def bind(document: Json, values: Sequence[Json] | None = (), *, where: str = "mapping") -> Mapping:
    """Return the mapping that a document means for these rows. Raises MappingError."""
    mapping, problems = _parse_document(document, values)
    if problems:
        raise MappingError(where, tuple(problems))
    return mapping


def _parse_document(document: Json, values: Sequence[Json] | None) -> tuple[Mapping, list[Problem]]:
    """The mapping and every problem; with a problem the mapping is partial."""
    parser = Parser()
    parser.problems += [*_unwritable_problems(document)] or _size_problems(document)
    if parser.problems or not isinstance(document, dict):
        if not parser.problems:
            parser.fail("", "a JSON object", document)
        return Mapping(outer=Layout()), parser.problems
    older = Version1(values)
    stated = document if "version" in document else older.rewrite(document)
    if stated["version"] != 2 or isinstance(stated["version"], bool):
        parser.fail("/version", "2 (a file without version is version 1)", stated["version"])
    mapping = replace(parser.mapping(stated), warnings=tuple(older.warnings))
    parser.problems += older.problems
    # The schema is the contract: should the parser ever be laxer, the schema still has the word.
    if not parser.problems:
        for pointer, message in _schema_violations(json.dumps(stated)):
            parser.problems.append(Problem(pointer, "schema", message[:200], short_json(stated)))
    return mapping, parser.problems


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


def load_mapping(path: File) -> Mapping:
    """Read a mapping file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = str(error.strerror or error)
        problem = Problem("", "unreadable", "a mapping file", reason[:1].lower() + reason[1:])
        raise MappingError(str(path), (problem,)) from error
    return read_mapping(data, where=str(path))


def read_mapping(data: bytes, *, where: str) -> Mapping:
    """Return the mapping that the bytes of a file hold. Raises MappingError."""
    if len(data) > MAX_BYTES:
        problem = Problem("", "too_large", f"at most {MAX_BYTES >> 20} MiB", "more")
        raise MappingError(where, (problem,))
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = json_fault(error) if isinstance(error, ValueError) else "lists nested too deep"
        problem = Problem("", "bad_json", "a mapping in JSON", reason)
        raise MappingError(where, (problem,)) from error
    mapping = read_tree(document)
    bind_tree(mapping, where=where)
    return mapping


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


NO_MAPPING = read_tree({"version": 2})  # it says nothing yet, not that there is nothing
FORMS[Mapping] = (to_document, read_tree)
