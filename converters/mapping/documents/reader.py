"""Read the parts of a JSON document, and note every problem with its place."""

import difflib
import json
from collections.abc import Callable, Sequence
from typing import Any

from ingot.converters.errors import Problem
from ingot.converters.json_yaml import pointer_to, shorten_text
from ingot.converters.mapping.lookup import PARTS, Lookup
from ingot.converters.paths import Path, PathSyntaxError, compile_path
from ingot.converters.rows import Json, MappingDocument

Read = Callable[[Json, str], Any]


def short_json(value: Json) -> str:
    """Return a short JSON spelling of what was found, for messages."""
    return shorten_text(json.dumps(value, ensure_ascii=False, default=str), 80)


def is_scalar(value: Json) -> bool:
    """Return whether a value is a text, a number, a boolean or null."""
    return value is None or isinstance(value, str | int | float)


class DocumentReader:
    """Reads parts of one document; `problems` collects what is wrong; wrong parts are left out."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def fail(self, pointer: str, expected: str, got: Json, nearest: str | None = None) -> None:
        """Note that a part of the document has the wrong form."""
        self.problems.append(Problem(pointer, "schema", expected, short_json(got), nearest))

    def _take(self, document: Json, fits: object, pointer: str, expected: str) -> Any:  # noqa: ANN401
        """The document where it fits, else None and a problem."""
        if fits:
            return document
        self.fail(pointer, expected, document)
        return None

    def _choice(
        self, document: Json, pointer: str, choices: Sequence[str], what: str = "one of"
    ) -> Any:  # noqa: ANN401
        if document in choices:
            return document
        close = difflib.get_close_matches(str(document), choices, 1)
        nearest = close[0] if close else None
        self.fail(pointer, f"{what} {', '.join(choices)}", document, nearest)
        return None

    def _object(self, document: Json, pointer: str, keys: Sequence[str]) -> MappingDocument:
        """An object with known keys; unknown keys are problems, and left out."""
        if not isinstance(document, dict):
            self.fail(pointer, "an object", document)
            return {}
        for key in document:
            self._choice(key, pointer_to(pointer, key), keys, "one of the keys")
        return {key: document[key] for key in document if key in keys}

    def _inside(
        self, document: MappingDocument, pointer: str, key: str, read: Read, default: object = None
    ) -> Any:  # noqa: ANN401 - whatever `read` gives
        return read(document[key], f"{pointer}/{key}") if key in document else default

    def _required(self, document: MappingDocument, pointer: str, key: str, read: Read) -> Any:  # noqa: ANN401
        """What `read` makes of a key that has to be there."""
        if key not in document:
            self.fail(f"{pointer}/{key}", f"the key {key}", list(document))
            return None
        return read(document[key], f"{pointer}/{key}")

    def _path(self, document: Json, pointer: str) -> Path | None:
        if not isinstance(document, str):
            self.fail(pointer, "a path", document)
            return None
        try:
            return compile_path(document)
        except PathSyntaxError as error:
            expected, got = f"a path ({error.problem})", short_json(document)
            self.problems.append(Problem(pointer, "bad_path", expected, got, error.nearest))
            return None

    def _place(self, document: Json, pointer: str) -> Path | None:
        if not isinstance(document, dict):
            return self._path(document, pointer)
        document = self._object(document, pointer, PARTS)
        parts = [self._required(document, pointer, key, self._path) for key in PARTS]
        return None if None in parts else Lookup(*parts)

    def _list_of(self, document: Json, pointer: str, one: Read, least: int = 1) -> tuple[Any, ...]:
        """A list of at least `least`, each entry parsed by `one`; those that fail are left out."""
        if not isinstance(document, list) or len(document) < least:
            self.fail(pointer, f"a list of at least {least}", document)
            return ()
        parsed = [one(entry, f"{pointer}/{i}") for i, entry in enumerate(document)]
        return tuple(entry for entry in parsed if entry is not None)

    def _text(self, document: Json, pointer: str, empty: bool = False) -> str | None:
        expected = "a text" if empty else "a text that is not empty"
        fits = isinstance(document, str) and (document or empty)
        text: str | None = self._take(document, fits, pointer, expected)
        return text

    def _lists(self, one: Read, least: int = 1) -> Read:
        """What reads a list of at least `least`."""
        return lambda document, pointer: self._list_of(document, pointer, one, least)

    def _check_unique(self, document: Json, pointer: str) -> None:
        if isinstance(document, list):
            texts = [entry for entry in document if isinstance(entry, str)]
            self._take(document, len(set(texts)) == len(texts), pointer, "every entry once")
