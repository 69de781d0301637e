"""A mapping document to values: every problem is found in one pass, each with its place.

The JSON Schema in `schemas/mapping.schema.json` is the published contract; this parser accepts the
same documents (a test holds the two together; only the parser refuses alternatives that make
records of two kinds) and says what is wrong in words a person can act on.
"""

import re
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar, get_args

from ingot.converters.json_yaml import pointer_to
from ingot.converters.mapping.documents.reader import DocumentReader, Read, is_scalar
from ingot.converters.mapping.language import (
    FORMS,
    META_KEYS,
    ROLES,
    TREE_KEYS,
    Condition,
    Group,
    Layout,
    Mapping,
    Message,
    MessageRole,
    Modifier,
    Operator,
    Role,
    RoleFromData,
    RoleInTurn,
    RoleSplit,
    Tree,
    Value,
    ValueKind,
    layouts_kind,
    split_template,
)
from ingot.converters.paths import MAX_STEPS, Path
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.facts import (
    FORMATS,
    MOST_HEADER_ROW,
    ORIENTS,
    WEB_PAGES,
    SourceSpec,
)

Node = TypeVar("Node")

_LABEL = re.compile(r"[^A-Za-z0-9]*[Aa10][^A-Za-z0-9]*")
_SOURCE_CHOICES = {"format": FORMATS, "orient": ORIENTS, "html": WEB_PAGES}
_SOURCE_KEYS = (
    *("files", "format", "encoding", "delimiter", "quote", "columns", "query", "root"),
    *("header_rows", "orient", "html", "json_fields"),
)
_FLAGS = [
    (one.metadata[Modifier].key, one.name, one.metadata[Modifier].word)
    for one in fields(Value)
    if Modifier in one.metadata and one.metadata[Modifier].kind == "flag"
]
_CONDITIONS: tuple[Operator, ...] = get_args(Operator)
_VARIANT_KEYS = tuple(one.name for one in fields(Layout))
_MESSAGE_KEYS = tuple(one.name for one in fields(Message))
_V2_KEYS = ("version", "source", "group", *_VARIANT_KEYS, "any_of", "provenance")


class Parser(DocumentReader):
    """One pass over a mapping document of version 2."""

    def part(self, kind: type[Node], document: Json, pointer: str) -> Node | None:
        """Return one part of a mapping; None where it is wrong, or stands for nothing."""
        readers: dict[type, Read] = {
            Path: self._path,
            Value: self._value,
            Message: self._message,
            Condition: self._condition,
            Group: self._group,
        }
        part: Node | None = readers[kind](document, pointer)
        return part

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
        if "lookup" in document:
            return self._path_value(document, pointer)
        forms = [form for form in FORMS if form in document]
        if len(forms) != 1:
            self.fail(
                pointer, f"exactly one of the keys {', '.join((*FORMS, 'lookup'))}", list(document)
            )
            return None
        return self._form(forms[0], document, pointer)

    def _optional(self, document: Json, pointer: str) -> Value | None:
        return None if document is None else self._value(document, pointer)

    def _path_value(self, document: Json, pointer: str) -> Value | None:
        path = self._place(document, pointer)
        return Value(kind="path", path=path) if path else None

    def _form(self, form: ValueKind, document: MappingDocument, pointer: str) -> Value | None:
        readers: dict[str, tuple[str, Read]] = {
            "each": ("each", self._each),
            "pick": ("pick", self._pick),
            "map": ("map", self._map),
            **{key: (name, partial(self._flag, word)) for key, name, word in _FLAGS},
            "replace": ("replace", self._replace),
            "label": ("label", self._label),
            "sep": ("sep", lambda d, p: self._text(d, p, empty=True)),
        }
        more = (*TREE_KEYS, *readers) if form == "tree" else readers
        document = self._object(document, pointer, (form, *(() if form == "literal" else more)))
        modifiers = {
            field: self._inside(document, pointer, key, read)
            for key, (field, read) in readers.items()
        }
        modifiers = {field: value for field, value in modifiers.items() if value is not None}
        bodies: dict[str, tuple[str, Read]] = {
            "path": ("path", self._place),
            "template": ("template", self._template),
            "tree": ("tree", lambda d, p: self._tree(document, pointer)),
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
        pieces = split_template(text)
        if len(pieces) == 1 or any("{{" in p or "}}" in p for p in pieces):
            self.fail(pointer, "a template with balanced {{path}} placeholders", document)
            return None
        parts = [
            self._path(piece.strip(), pointer) if number % 2 else piece
            for number, piece in enumerate(pieces)
        ]
        return None if None in parts else tuple(part for part in parts if part)

    def _tree(self, document: MappingDocument, pointer: str) -> Tree | None:
        path = self._required(document, pointer, "tree", self._path)
        text = self._required(document, pointer, "text", self._value)
        children = self._required(document, pointer, "children", self._path)
        depth = self._required(document, pointer, "depth", self._depth)
        if not (path and text and children and depth):
            return None
        return Tree(path=path, text=text, children=children, depth=depth)

    def _depth(self, document: Json, pointer: str) -> int | None:
        whole = isinstance(document, int) and not isinstance(document, bool)
        fits = whole and 1 <= document <= MAX_STEPS
        depth: int | None = self._take(document, fits, pointer, f"a number from 1 to {MAX_STEPS}")
        return depth

    def _pick(self, document: Json, pointer: str) -> Value | None:
        """A value; `from` beside a path says with which number counting starts."""
        if not isinstance(document, dict) or "from" not in document:
            return self._value(document, pointer)
        document = self._object(document, pointer, ("path", "map", "from"))
        path = self._required(document, pointer, "path", self._place)
        table = self._inside(document, pointer, "map", self._map)
        start = document["from"]
        fits = isinstance(start, int | float) and not isinstance(start, bool) and start in (0, 1)
        if self._take(start, fits, f"{pointer}/from", "0 or 1") is None or path is None:
            return None
        return Value(kind="path", path=path, map=table, count_from=int(start))

    def _map(self, document: Json, pointer: str) -> Any:  # noqa: ANN401
        fits = isinstance(document, dict) and document and all(map(is_scalar, document.values()))
        expected = "an object of text to text, number, boolean or null"
        return self._take(document, fits, pointer, expected)

    def _flag(self, word: str, document: Json, pointer: str) -> bool | None:
        return self._take(document, document == word, pointer, f'"{word}"') and True

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
            kind = "order" if "order" in document else "map"
            document = self._object(document, pointer, ("path", kind))
            path = self._place(document["path"], f"{pointer}/path")
            role_map = self._inside(document, pointer, "map", self._role_map)
            order = self._inside(document, pointer, "order", self._lists(self._fixed_role, 2), ())
            return RoleFromData(path=path, map=role_map, order=order) if path else None
        self.fail(
            pointer, "a role, a list of roles, {path, map}, {path, order} or {split}", document
        )
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
        document = self._object(document, pointer, _MESSAGE_KEYS)
        role = self._required(document, pointer, "role", self._role)
        content = self._required(document, pointer, "content", self._optional)
        each = self._inside(document, pointer, "each", self._each, ())
        where = self._inside(document, pointer, "where", self._lists(self._condition), ())
        mask = self._inside(document, pointer, "loss_mask", self._mask)
        if role is None:
            return None
        return Message(role=role, content=content, each=each, where=where, loss_mask=mask)

    def _mask(self, document: Json, pointer: str) -> bool | Value | None:
        return document if isinstance(document, bool) else self._optional(document, pointer)

    def _condition(self, document: Json, pointer: str) -> Condition | None:
        document = self._object(document, pointer, ("path", *_CONDITIONS))
        path = self._required(document, pointer, "path", self._place)
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
        values = {
            key: self._inside(document, pointer, key, self._optional)
            for key in ("text", "system", "tools")
        }
        messages = document.get("messages")
        if messages is not None:
            messages = self._list_of(messages, f"{pointer}/messages", self._message)
        return Layout(
            each=self._inside(document, pointer, "each", self._each, ()),
            where=self._inside(document, pointer, "where", self._lists(self._condition), ()),
            messages=messages or None,
            meta=self._meta(document.get("meta"), f"{pointer}/meta"),
            **values,
        )

    def _meta(self, document: Json, pointer: str) -> dict[str, Value]:
        if document is None:
            return {}
        stated = self._object(document, pointer, META_KEYS)
        parsed = {
            k: self._value(stated[k], f"{pointer}/{k}")
            for k in META_KEYS
            if stated.get(k) is not None
        }
        return {key: value for key, value in parsed.items() if value}

    def _group(self, document: Json, pointer: str) -> Group | None:
        document = self._object(document, pointer, ("by", "sort"))
        by = self._required(document, pointer, "by", self._lists(self._path))
        sort = self._inside(document, pointer, "sort", self._path)
        return Group(by=by, sort=sort) if by else None

    def _source(self, document: Json, pointer: str) -> SourceSpec:
        block = self._object(document, pointer, _SOURCE_KEYS)
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
        if key == "header_rows":
            return self._header_rows(stated, pointer)
        if key == "json_fields":
            fields = tuple(path.text for path in self._list_of(stated, pointer, self._path))
            self._check_unique(stated, pointer)
            return fields
        if key == "root":
            path = self._path(stated, pointer)
            return path.text if path else None
        if key in _SOURCE_CHOICES:
            return self._choice(stated, pointer, _SOURCE_CHOICES[key])
        if key == "quote" and isinstance(stated, str) and len(stated) > 1:
            self.fail(pointer, "one character, or empty for no quoting", stated)
            return None
        return self._text(stated, pointer, empty=key == "quote")

    def _header_rows(self, stated: Json, pointer: str) -> tuple[int, ...] | None:
        numbers = stated if isinstance(stated, list) else []
        whole = all(type(one) is int and 1 <= one <= MOST_HEADER_ROW for one in numbers)
        if not (1 <= len(numbers) <= 2 and whole and sorted({*numbers}) == numbers):
            expected = f"one or two rising numbers from 1 to {MOST_HEADER_ROW:,}, such as [3]"
            self.fail(pointer, expected, stated)
            return None
        return tuple(numbers)

    def mapping(self, document: MappingDocument) -> Mapping:
        """Return the tree of a document, without the parts of it that are wrong."""
        document = self._object(document, "", _V2_KEYS)
        targets = [key for key in ("text", "messages", "any_of") if key in document]
        if len(targets) != 1:
            self.fail("", "exactly one of text, messages, any_of", targets)
        variants: tuple[Layout, ...] = self._inside(
            document, "", "any_of", self._lists(self._variant, 2), ()
        )
        if len({layouts_kind((variant,)) for variant in variants} - {"irrelevant"}) > 1:
            self.fail("/any_of", "alternatives that all give text, or all give messages", targets)
        provenance = document.get("provenance")
        if "provenance" in document and not isinstance(provenance, dict):
            self.fail("/provenance", "an object", provenance)
        return Mapping(
            outer=self._layout(document, ""),
            any_of=variants,
            source=self._inside(document, "", "source", self._source, SourceSpec()),
            group=self._inside(document, "", "group", self._group),
            provenance=provenance,
        )

    def _variant(self, document: Json, pointer: str) -> Layout:
        return self._layout(self._object(document, pointer, _VARIANT_KEYS), pointer)
