"""The mapping: a document that people review, and the bound value that converters execute.

`parse` checks a document alone; `bind` settles on sampled rows what version 1 leaves open and gives
the frozen `Mapping`; `to_document` writes it as version 2, in which nothing is left to interpret.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any

from ingot.converters.bind import LiteralBinder, infer_roles
from ingot.converters.contracts import violations
from ingot.converters.errors import MappingError, Problem
from ingot.converters.language import Mapping, to_document
from ingot.converters.parse import Parser, shown
from ingot.converters.rows import Json

__all__ = ["Mapping", "bind", "load", "parse", "to_document"]


def parse(document: Json, *, where: str) -> dict[str, Any]:
    """Check a document without data.

    Raises:
        MappingError: with every problem: schema violations, `bad_path`, unbalanced placeholders.
    """
    if isinstance(document, dict) and "version" not in document:
        document, _ = infer_roles(document, ())
    _, problems = _parsed(document, None)
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
    notes: list[str] = []
    binder = LiteralBinder(values)
    if isinstance(document, dict) and "version" not in document:
        document, notes = infer_roles(document, values)
    mapping, problems = _parsed(document, binder)
    if problems:
        raise MappingError(where, tuple(problems))
    return replace(mapping, warnings=(*notes, *binder.warnings))


def _parsed(document: Json, binder: LiteralBinder | None) -> tuple[Mapping, list[Problem]]:
    parser = Parser(binder)
    if not isinstance(document, dict):
        parser.fail("", "a JSON object", document)
        return parser.version1({"text": None}), parser.problems
    if "version" not in document:
        mapping = parser.version1(document)
    else:
        if document["version"] != 2 or isinstance(document["version"], bool):
            parser.fail("/version", "2 (a file without version is version 1)", document["version"])
        mapping = parser.version2(document)
    # The schema is the contract: should the parser ever be laxer, the schema still has the word.
    if not parser.problems:
        for pointer, message in violations("mapping", document):
            parser.problems.append(Problem(pointer, "schema", message[:200], shown(document)))
    return mapping, parser.problems


def load(path: File) -> dict[str, Any]:
    """Read a mapping file.

    Raises:
        MappingError: the file is missing, is no JSON, or is no mapping.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        problem = Problem("", "unreadable", "a mapping file", str(error.strerror or error))
        raise MappingError(str(path), (problem,)) from error
    except ValueError as error:
        problem = Problem("", "bad_json", "a JSON document", str(error))
        raise MappingError(str(path), (problem,)) from error
    return parse(document, where=str(path))
