"""The mapping: a document that people review, and the bound value that converters execute.

`parse` checks a document alone; `bind` settles on sampled rows what version 1 leaves open and gives
the frozen `Mapping`; `to_document` writes it as version 2, in which nothing is left to interpret.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any, NoReturn

from ingot.converters.bind import LiteralBinder, infer_roles, literal_without_rows
from ingot.converters.contracts import violations
from ingot.converters.errors import MappingError, Problem
from ingot.converters.language import Layout, Mapping, to_document
from ingot.converters.parse import LiteralRule, Parser, pointer_to, shown
from ingot.converters.rows import Json

__all__ = ["Mapping", "bind", "load", "parse", "read", "to_document"]

# Deeper than any mapping that a person can read, and far from the depth at which recursion ends.
MAX_LEVELS = 40
_MAX_BITS = 4096


def parse(document: Json, *, where: str) -> dict[str, Any]:
    """Check a document without data.

    Raises:
        MappingError: with every problem: schema violations, `bad_path`, unbalanced placeholders.
    """
    _, _, problems = _parsed(document, (), literal_without_rows)
    if problems:
        raise MappingError(where, tuple(problems))
    return dict(document)


def bind(document: Json, values: Sequence[Json] = (), *, where: str = "mapping") -> Mapping:
    """The mapping that a document means for these rows.

    Args:
        document: a mapping document of version 1 or 2.
        values: sampled rows; version 1 needs them to tell literals from paths and to infer roles.
        where: what to call the document in errors.

    Raises:
        MappingError: with every problem of the document.
    """
    binder = LiteralBinder(values)
    mapping, notes, problems = _parsed(document, values, binder)
    if problems:
        raise MappingError(where, tuple(problems))
    return replace(mapping, warnings=(*notes, *binder.warnings))


def _parsed(
    document: Json, values: Sequence[Json], literal_rule: LiteralRule
) -> tuple[Mapping, list[str], list[Problem]]:
    """The mapping, what was inferred, and every problem; with a problem the mapping is partial."""
    parser = Parser(literal_rule)
    parser.problems += _unwritable(document)
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
        for pointer, message in violations("mapping", document):
            parser.problems.append(Problem(pointer, "schema", message[:200], shown(document)))
    return mapping, notes, parser.problems


def _unwritable(document: Json) -> Iterator[Problem]:
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
        elif wanted := _not_json(value):
            place = pointer.encode(errors="backslashreplace").decode()
            got = "a longer one" if isinstance(value, int) else ascii(value)[:80]
            yield Problem(place, "schema", wanted, got)


def _not_json(value: Json) -> str | None:
    """What a scalar should be, where it is nothing that a JSON file in UTF-8 can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"a number of at most {_MAX_BITS} bits"
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "valid Unicode (a lone surrogate is none)"
    return None


def load(path: File) -> dict[str, Any]:
    """Read a mapping file.

    Raises:
        MappingError: the file is missing, is no JSON, or is no mapping.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        said = str(error.strerror or error)
        problem = Problem("", "unreadable", "a mapping file", said[:1].lower() + said[1:])
        raise MappingError(str(path), (problem,)) from error
    return read(data, where=str(path))


def read(data: bytes, *, where: str) -> dict[str, Any]:
    """The document that the bytes of a mapping file hold.

    Raises:
        MappingError: they are no JSON, or no mapping.
    """
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        said = str(error).partition(";")[0]
        problem = Problem("", "bad_json", "a JSON document", said)
        raise MappingError(where, (problem,)) from error
    return parse(document, where=where)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
