"""A mapping document to values: every problem is found in one pass, each with its place.

The JSON Schema in `schemas/mapping.schema.json` is the published contract; this parser accepts the
same documents (a test holds the two together; only the parser refuses alternatives that make
records of two kinds) and says what is wrong in words a person can act on.
"""

import difflib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ingot.converters.errors import Problem
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.language import (
    META_KEYS,
    ROLES,
    Condition,
    Group,
    Layout,
    Mapping,
    MappingKind,
    Message,
    MessageRole,
    Operator,
    Role,
    RoleFromData,
    RoleInTurn,
    RoleSplit,
    Value,
    ValueKind,
)
from ingot.converters.paths import Path, PathSyntaxError, compile_path
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.facts import FORMATS, SourceSpec

# How a bare string of version 1 that may be a literal (source, language, system) becomes a value:
# (key, text, pointer) -> value, or the problem.
LiteralRule = Callable[[str, str, str], Value | Problem]
Read = Callable[[Json, str], Any]

_FORMS: tuple[ValueKind, ...] = ("path", "concat", "any_of", "template", "literal")
_LABEL = re.compile(r"[^A-Za-z0-9]*[Aa10][^A-Za-z0-9]*")
_PLACEHOLDER = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
_SOURCE_KEYS = ("files", "format", "encoding", "delimiter", "quote", "columns", "root")
_CONDITIONS: tuple[Operator, ...] = ("in", "not_in", "min_chars", "max_chars")
_VARIANT_KEYS = ("each", "where", "text", "messages", "system", "tools", "meta")
_V2_KEYS = ("version", "source", "group", *_VARIANT_KEYS, "any_of", "provenance")


def short_json(value: Json) -> str:
    """A short JSON spelling of what was found, for messages."""
    return shorten_text(json.dumps(value, ensure_ascii=False, default=str), 80)


def is_scalar(value: Json) -> bool:
    """True for text, numbers, booleans and null."""
    return value is None or isinstance(value, str | int | float)


def pointer_to(pointer: str, key: str | int) -> str:
    """The JSON Pointer to a key or place of what another pointer leads to."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


class Parser:
    """One pass over a document; `problems` collects what is wrong; wrong parts are left out."""

    def __init__(self, literal_rule: LiteralRule) -> None:
        self.problems: list[Problem] = []
        self.literal_rule = literal_rule

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
        """One of some texts."""
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

    def _each(self, document: Json, pointer: str) -> tuple[Path, ...]:
        """A path, or a list of paths walked in step."""
        if isinstance(document, list):
            return self._list_of(document, pointer, self._path, least=2)
        path = self._path(document, pointer)
        return (path,) if path else ()

    def _value(self, document: Json, pointer: str) -> Value | None:
        if isinstance(document, str):
            return self._path_value(document, pointer)
        if isinstance(document, list):
            parts = self._list_of(document, pointer, self._value)
            if len(document) == 1:
                return parts[0] if parts else None
            return Value(kind="concat", parts=parts) if parts else None
        if not isinstance(document, dict):
            self.fail(pointer, "a path, a list of values, or an object", document)
            return None
        forms = [form for form in _FORMS if form in document]
        if len(forms) != 1:
            self.fail(pointer, f"exactly one of the keys {', '.join(_FORMS)}", list(document))
            return None
        return self._form(forms[0], document, pointer)

    def _optional(self, document: Json, pointer: str) -> Value | None:
        return None if document is None else self._value(document, pointer)

    def _path_value(self, document: Json, pointer: str) -> Value | None:
        path = self._path(document, pointer)
        return Value(kind="path", path=path) if path else None

    def _form(self, form: ValueKind, document: MappingDocument, pointer: str) -> Value | None:
        readers: dict[str, tuple[str, Read]] = {
            "each": ("each", self._each),
            "pick": ("pick", self._value),
            "map": ("map", self._map),
            "as": ("as_json", lambda d, p: self._take(d, d == "json", p, '"json"') and True),
            "replace": ("replace", self._replace),
            "label": ("label", self._label),
            "sep": ("sep", lambda d, p: self._text(d, p, empty=True)),
        }
        document = self._object(document, pointer, (form, *(() if form == "literal" else readers)))
        modifiers = {
            field: self._inside(document, pointer, key, read)
            for key, (field, read) in readers.items()
        }
        modifiers = {field: value for field, value in modifiers.items() if value is not None}
        bodies: dict[str, tuple[str, Read]] = {
            "path": ("path", self._path),
            "template": ("template", self._template),
            "literal": ("literal", self._text),
            "concat": ("parts", self._lists(self._value)),
            "any_of": ("parts", self._lists(self._value, 2)),
        }
        field, read = bodies[form]
        body = read(document[form], f"{pointer}/{form}")
        return Value(kind=form, **{field: body}, **modifiers) if body else None

    def _template(self, document: Json, pointer: str) -> tuple[str | Path, ...] | None:
        text = self._text(document, pointer)
        if text is None:
            return None
        pieces = _PLACEHOLDER.split(text)
        if len(pieces) == 1 or any("{{" in p or "}}" in p for p in pieces):
            self.fail(pointer, "a template with balanced {{path}} placeholders", document)
            return None
        parts = [
            self._path(piece.strip(), pointer) if number % 2 else piece
            for number, piece in enumerate(pieces)
        ]
        return None if None in parts else tuple(part for part in parts if part)

    def _map(self, document: Json, pointer: str) -> Any:  # noqa: ANN401
        fits = isinstance(document, dict) and document and all(map(is_scalar, document.values()))
        expected = "an object of text to text, number, boolean or null"
        return self._take(document, fits, pointer, expected)

    def _replace(self, document: Json, pointer: str) -> Any:  # noqa: ANN401
        texts = isinstance(document, dict) and all(isinstance(v, str) for v in document.values())
        fits = texts and document and "" not in document
        return self._take(document, fits, pointer, "an object of text to text, no key empty")

    def _label(self, document: Json, pointer: str) -> Any:  # noqa: ANN401
        fits = isinstance(document, str) and _LABEL.fullmatch(document)
        return self._take(document, fits, pointer, 'a label such as "A. ", "(a) ", "1) " or "0: "')

    def _role(self, document: Json, pointer: str) -> MessageRole | None:
        if isinstance(document, str):
            return self._fixed_role(document, pointer)
        if isinstance(document, list):
            roles = self._list_of(document, pointer, self._fixed_role, least=2)
            return RoleInTurn(roles=roles) if roles else None
        if isinstance(document, dict) and "split" in document:
            document = self._object(document, pointer, ("split",))
            markers = self._role_map(document["split"], f"{pointer}/split")
            return RoleSplit(markers=markers) if markers else None
        if isinstance(document, dict) and "path" in document:
            document = self._object(document, pointer, ("path", "map"))
            path = self._path(document["path"], f"{pointer}/path")
            stated = document.get("map")
            role_map = None if stated is None else self._role_map(stated, f"{pointer}/map")
            return RoleFromData(path=path, map=role_map) if path else None
        self.fail(pointer, "a role, a list of roles, {path, map} or {split}", document)
        return None

    def _fixed_role(self, document: Json, pointer: str) -> Role | None:
        role: Role | None = self._choice(document, pointer, ROLES)
        return role

    def _role_map(self, document: Json, pointer: str) -> dict[str, Role | None] | None:
        fits = isinstance(document, dict) and document and "" not in document
        if not self._take(document, fits, pointer, "an object of text to role or null"):
            return None
        return {
            key: None if role is None else self._fixed_role(role, pointer_to(pointer, key))
            for key, role in document.items()
        }

    def _message(self, document: Json, pointer: str) -> Message | None:
        document = self._object(document, pointer, ("each", "role", "content", "loss_mask"))
        role = self._required(document, pointer, "role", self._role)
        content = self._required(document, pointer, "content", self._optional)
        each = self._inside(document, pointer, "each", self._each, ())
        mask = self._inside(document, pointer, "loss_mask", self._mask)
        if role is None:
            return None
        return Message(role=role, content=content, each=each, loss_mask=mask)

    def _mask(self, document: Json, pointer: str) -> bool | Value | None:
        return document if isinstance(document, bool) else self._optional(document, pointer)

    def _condition(self, document: Json, pointer: str) -> Condition | None:
        document = self._object(document, pointer, ("path", *_CONDITIONS))
        path = self._required(document, pointer, "path", self._path)
        ops = [op for op in _CONDITIONS if op in document]
        if len(ops) != 1:
            self.fail(pointer, f"exactly one of {', '.join(_CONDITIONS)}", list(document))
            return None
        op, stated, place = ops[0], document[ops[0]], f"{pointer}/{ops[0]}"
        if op in ("in", "not_in"):
            fits = isinstance(stated, list) and stated and all(map(is_scalar, stated))
            if not self._take(stated, fits, place, "a list of text, numbers, booleans or null"):
                return None
            return Condition(path=path, op=op, values=tuple(stated)) if path else None
        fits = isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0
        if self._take(stated, fits, place, "a number of characters, 0 or more") is None:
            return None
        return Condition(path=path, op=op, limit=stated) if path else None

    def _layout(self, document: MappingDocument, pointer: str) -> Layout:
        if document.get("text") is not None and document.get("messages") is not None:
            self.fail(pointer, "text or messages, not both", ["text", "messages"])
        each = self._inside(document, pointer, "each", self._each, ())
        if len(each) > 1:
            self.fail(f"{pointer}/each", "one path", document["each"])
        values = {
            key: self._inside(document, pointer, key, self._optional)
            for key in ("text", "system", "tools")
        }
        messages = document.get("messages")
        if messages is not None:
            messages = self._list_of(messages, f"{pointer}/messages", self._message)
        return Layout(
            each=each[0] if each else None,
            where=self._inside(document, pointer, "where", self._lists(self._condition), ()),
            messages=messages or None,
            meta=self._meta(document.get("meta"), f"{pointer}/meta", self._value),
            **values,
        )

    def _meta(self, document: Json, pointer: str, read: Read) -> dict[str, Value]:
        if document is None:
            return {}
        stated = self._object(document, pointer, META_KEYS)
        parsed = {
            k: read(stated[k], f"{pointer}/{k}") for k in META_KEYS if stated.get(k) is not None
        }
        return {key: value for key, value in parsed.items() if value}

    def _group(self, document: Json, pointer: str) -> Group | None:
        document = self._object(document, pointer, ("by", "sort"))
        by = self._required(document, pointer, "by", self._lists(self._path))
        sort = self._inside(document, pointer, "sort", self._path)
        return Group(by=by, sort=sort) if by else None

    def _source(self, document: Json, pointer: str) -> SourceSpec:
        block = self._object(document, pointer, (*_SOURCE_KEYS, "json_fields"))
        if isinstance(document, dict) and not document:
            self.fail(pointer, "at least one fact, or no source at all", document)
        facts = {key: self._source_fact(key, one, f"{pointer}/{key}") for key, one in block.items()}
        return SourceSpec(**{key: one for key, one in facts.items() if one is not None})

    def _source_fact(self, key: str, stated: Json, pointer: str) -> Any:  # noqa: ANN401
        if key in ("files", "columns"):
            texts = self._list_of(stated, pointer, self._text)
            if key == "columns":
                self._check_unique(stated, pointer)
            return texts
        if key == "json_fields":
            fields = tuple(path.text for path in self._list_of(stated, pointer, self._path))
            self._check_unique(stated, pointer)
            return fields
        if key == "root":
            path = self._path(stated, pointer)
            return path.text if path else None
        if key == "format":
            return self._choice(stated, pointer, FORMATS)
        if key == "quote" and isinstance(stated, str) and len(stated) > 1:
            self.fail(pointer, "one character, or empty for no quoting", stated)
            return None
        return self._text(stated, pointer, empty=key == "quote")

    def _check_unique(self, document: Json, pointer: str) -> None:
        if isinstance(document, list):
            texts = [entry for entry in document if isinstance(entry, str)]
            self._take(document, len(set(texts)) == len(texts), pointer, "every entry once")

    def version2(self, document: MappingDocument) -> Mapping:
        """A version 2 document."""
        document = self._object(document, "", _V2_KEYS)
        targets = [key for key in ("text", "messages", "any_of") if key in document]
        if len(targets) != 1:
            self.fail("", "exactly one of text, messages, any_of", targets)
        variants: tuple[Layout, ...] = self._inside(
            document, "", "any_of", self._lists(self._variant, 2), ()
        )
        if len({_layout_kind((variant,)) for variant in variants} - {"irrelevant"}) > 1:
            self.fail("/any_of", "alternatives that all give text, or all give messages", targets)
        provenance = document.get("provenance")
        if "provenance" in document and not isinstance(provenance, dict):
            self.fail("/provenance", "an object", provenance)
        outer = self._layout(document, "")
        return Mapping(
            kind=_layout_kind((outer, *variants)),
            outer=outer,
            any_of=variants,
            source=self._inside(document, "", "source", self._source, SourceSpec()),
            group=self._inside(document, "", "group", self._group),
            provenance=provenance,
        )

    def _variant(self, document: Json, pointer: str) -> Layout:
        return self._layout(self._object(document, pointer, _VARIANT_KEYS), pointer)

    def version1(self, document: MappingDocument) -> Mapping:
        """A version 1 document: the contract's own form, valid for ever."""
        target = "messages" if "messages" in document else "text"
        keys = ("messages", "system", "meta") if target == "messages" else ("text", "meta")
        document = self._object(document, "", keys)
        if target not in document:
            self.fail("", "text or messages (or version 2)", list(document))
        body, system = document.get(target), document.get("system")
        text = messages = None
        if target == "text":
            text = self._content1(body, "/text")
        elif body is not None:
            messages = self._list_of(body, "/messages", self._message1)
        layout = Layout(
            text=text,
            messages=messages or None,
            system=self._literal_or_path(system, "/system") if system is not None else None,
            meta=self._meta(document.get("meta"), "/meta", self._literal_or_path),
        )
        return Mapping(kind=_layout_kind((layout,)), outer=layout)

    def _message1(self, document: Json, pointer: str) -> Message | None:
        document = self._object(document, pointer, ("role", "content", "loss_mask"))
        role = self._required(document, pointer, "role", self._fixed_role)
        content = self._required(document, pointer, "content", self._content1)
        mask = document.get("loss_mask")
        fits = mask is None or isinstance(mask, bool)
        mask = self._take(mask, fits, f"{pointer}/loss_mask", "true, false or null")
        return Message(role=role, content=content, loss_mask=mask) if role else None

    def _content1(self, document: Json, pointer: str) -> Value | None:
        """A path, a list of paths, or null (version 1)."""
        if document is None:
            return None
        if not isinstance(document, list):
            return self._path_value(document, pointer)
        parts = tuple(
            Value(kind="path", path=path) for path in self._list_of(document, pointer, self._path)
        )
        return parts[0] if len(parts) == 1 else Value(kind="concat", parts=parts)

    def _literal_or_path(self, document: Json, pointer: str) -> Value | None:
        """A bare string of version 1 that may be a literal, settled by the rule of the binder."""
        key = pointer.rsplit("/", 1)[-1]
        if key not in ("source", "language", "system"):
            return self._path_value(document, pointer)
        text = self._text(document, pointer)
        if text is None:
            return None
        settled = self.literal_rule(key, text, pointer)
        if isinstance(settled, Problem):
            self.problems.append(settled)
            return None
        return settled


def _layout_kind(layouts: tuple[Layout, ...]) -> MappingKind:
    if any(layout.messages for layout in layouts):
        return "sft"
    return "pt" if any(layout.text for layout in layouts) else "irrelevant"
