"""Rewrite a mapping document of version 1 as one of version 2, which is all that is read beyond.

Version 1 leaves to the rows what version 2 states: whether a bare string is a path or a literal,
and the roles of messages. docs/mapping.md says how it is decided.
"""

import difflib
from collections.abc import Callable, Sequence
from functools import cached_property

from ingot.converters import paths
from ingot.converters.errors import Problem
from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.documents.reader import DocumentReader
from ingot.converters.mapping.language import META_KEYS, ROLES
from ingot.converters.mapping.row_paths import nearest_path, observed_paths, resolves
from ingot.converters.rows import Json, MappingDocument, RowError
from ingot.converters.sources.documents.kinds import ISO_639_1

_USER_NAMES = ("question", "input", "prompt", "query", "user", "human", "problem", "问题")
_ASSISTANT_NAMES = ("answer", "response", "output", "completion", "assistant", "gpt", "回答")
_SYSTEM_NAMES = ("system", "instruction", "persona", "系统")
_MESSAGE_KEYS = ("role", "content", "loss_mask")
_PATHS = "a path, a list of paths or null"
_LITERALS = {
    "source": "a bare name that is not nearly a column's",
    "language": "an ISO 639-1 code or mix",
    "system": "a text with a blank in it",
}


class Version1(DocumentReader):
    """A rewriting for some rows; `problems` and `warnings` collect what it meets.

    It notes what only version 1 refuses; what both versions refuse is left for the parser.
    """

    def __init__(self, values: Sequence[Json] | None) -> None:  # None: no rows to look in
        super().__init__()
        self._known, self._values = values is not None, values or ()
        self.warnings: list[str] = []

    def rewrite(self, document: MappingDocument) -> MappingDocument:
        """Return the document as one of version 2."""
        target = "messages" if "messages" in document else "text"
        keys = ("messages", "system", "meta") if target == "messages" else ("text", "meta")
        made = {target: None, **self._object(document, "", keys)}
        if target not in document:
            self.fail("", "text or messages (or version 2)", list(document))
        self._refuse(made, "text", "", _are_texts, _PATHS)
        if isinstance(made.get("messages"), list):
            made["messages"] = self._rewrite_messages(made["messages"])
        self._refuse(made, "system", "", _is_text, "a text that is not empty")
        self._settle_key(made, "system", "")
        if isinstance(made.get("meta"), dict):
            made["meta"] = self._rewrite_meta(made["meta"])
        return {"version": 2, **made}

    def _refuse(
        self,
        holder: MappingDocument,
        key: str,
        pointer: str,
        fits: Callable[[Json], bool],
        expected: str,
    ) -> None:
        """Put null in place of what version 1 has no form for, and note it."""
        if key in holder and not fits(holder[key]):
            self.fail(f"{pointer}/{key}", expected, holder[key])
            holder[key] = None

    def _rewrite_meta(self, meta: MappingDocument) -> MappingDocument:
        made = dict(meta)
        for key in META_KEYS:
            self._refuse(made, key, "/meta", _is_text, "a path")
            if key in _LITERALS:
                self._settle_key(made, key, "/meta")
        return made

    def _rewrite_messages(self, messages: list[Json]) -> list[Json]:
        made = list(messages)
        for number, message in enumerate(messages):
            if isinstance(message, dict):
                last = number == len(messages) - 1
                made[number] = self._rewrite_message(message, f"/messages/{number}", last)
        return made

    def _rewrite_message(
        self, message: MappingDocument, pointer: str, last: bool
    ) -> MappingDocument:
        """Fill in the role where it is left out, by field name, else by position."""
        made = self._object(message, pointer, _MESSAGE_KEYS)
        self._refuse(made, "role", pointer, _is_text, f"one of {', '.join(ROLES)}")
        self._refuse(made, "content", pointer, _are_texts, _PATHS)
        self._refuse(made, "loss_mask", pointer, _is_mask, "true, false or null")
        if made.get("role") in (None, "") and "content" in made:
            made["role"] = self._guess_role(made["content"], last)
            note = f"{pointer}/role: {made['role']} inferred from {made['content']!r}"
            self.warnings.append(note)
        return made

    def _guess_role(self, content: Json, last: bool) -> str:
        first = next(iter(content), None) if isinstance(content, list) else content
        if not isinstance(first, str):
            return "assistant" if last else "user"
        name = first.casefold().rsplit(".", 1)[-1]
        if any(known in name for known in _SYSTEM_NAMES):
            return "system" if "system" in name or self._is_nearly_constant(first) else "user"
        if any(known in name for known in _ASSISTANT_NAMES):
            return "assistant"
        if any(known in name for known in _USER_NAMES):
            return "user"
        return "assistant" if last else "user"

    def _is_nearly_constant(self, text: str) -> bool:
        """True if nearly all rows hold the same text there."""
        try:
            path = paths.compile_path(text)
            hits = [path.find(paths.Node(value)) for value in self._values]
            found = [tuple(h if isinstance(h, str) else found_text(h) for h in one) for one in hits]
        except (paths.PathSyntaxError, RowError):
            return False
        return len(found) > 1 and len(set(found)) <= max(1, len(found) // 20)

    def _settle_key(self, holder: MappingDocument, key: str, pointer: str) -> None:
        """Settle a bare string that may be a literal: one if no row has such a path."""
        text = holder.get(key)
        if isinstance(text, str) and text and self._is_literal(key, text, f"{pointer}/{key}"):
            holder[key] = {"literal": text}

    def _is_literal(self, key: str, text: str, pointer: str) -> bool:
        may_be = _may_be_literal(key, text)
        try:
            path = paths.compile_path(text)
        except paths.PathSyntaxError:  # which the parser names where it is no literal
            return may_be
        if not self._known:
            return True
        if resolves(path, self._values):
            if may_be and key != "source":
                warning = f"{pointer}: {text!r} is a column, so it is read as a path, not a literal"
                self.warnings.append(warning)
            return False
        if may_be and not (key == "source" and self._is_near_miss(text)):
            return True
        nearest = nearest_path(text, self._observed)
        expected = f"a path that exists in the data, or {_LITERALS[key]}"
        self.problems.append(Problem(pointer, "unresolved_path", expected, text, nearest))
        return False

    @cached_property
    def _observed(self) -> tuple[str, ...]:
        """The paths of the rows, looked for where a text is none of them."""
        return observed_paths(self._values)

    def _is_near_miss(self, text: str) -> bool:
        observed = {path.casefold() for path in self._observed}
        return bool(difflib.get_close_matches(text.casefold(), observed, 1, cutoff=0.8))


def _is_text(stated: Json) -> bool:
    return stated is None or isinstance(stated, str)


def _are_texts(stated: Json) -> bool:
    return all(map(_is_text, stated)) if isinstance(stated, list) else _is_text(stated)


def _is_mask(stated: Json) -> bool:
    return stated is None or isinstance(stated, bool)


def _may_be_literal(key: str, text: str) -> bool:
    if key == "language":
        return text in ISO_639_1 or text == "mix"
    if key == "source":
        return "." not in text and "[" not in text and "\n" not in text
    return any(c.isspace() for c in text.strip())
