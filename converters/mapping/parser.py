"""A mapping document to values: every problem is found in one pass, each with its place.

The JSON Schema in `schemas/mapping.schema.json` is the published contract; this parser accepts the
same documents (a test holds the two together; only the parser refuses alternatives that make
records of two kinds) and says what is wrong in words a person can act on.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from ingot.converters.errors import Problem
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
from ingot.converters.rows import Json, shorten_text
from ingot.converters.sources.facts import SourceSpec

# How a bare string of version 1 that may be a literal (source, language, system) becomes a value:
# (key, text, pointer) -> value, or the problem.
LiteralRule = Callable[[str, str, str], Value | Problem]

_MODIFIERS = ("each", "pick", "map", "as", "replace", "label", "sep")
_FORMS: tuple[ValueKind, ...] = ("path", "concat", "any_of", "template", "literal")
_LABEL = re.compile(r"[^A-Za-z0-9]*[Aa10][^A-Za-z0-9]*")
_PLACEHOLDER = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
_FORMATS = ("jsonl", "json", "csv", "parquet", "arrow", "text")
_SOURCE_KEYS = ("files", "format", "encoding", "delimiter", "quote", "columns", "root")
_CONDITIONS: tuple[Operator, ...] = ("in", "not_in", "min_chars", "max_chars")
_VARIANT_KEYS = ("each", "where", "text", "messages", "system", "tools", "meta")
_V2_KEYS = ("version", "source", "group", *_VARIANT_KEYS, "any_of", "provenance")


def short_json(value: Json) -> str:
    """A short JSON spelling of what was found, for messages."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return shorten_text(text, 80)


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

    # --- parts every version has

    def object(self, document: Json, pointer: str, keys: Iterable[str]) -> dict[str, Json]:
        """An object with known keys; unknown keys are problems, and left out."""
        if not isinstance(document, dict):
            self.fail(pointer, "an object", document)
            return {}
        allowed = tuple(keys)
        for key in document:
            if key not in allowed:
                close = difflib.get_close_matches(key, allowed, 1)
                nearest = close[0] if close else None
                expected = f"one of the keys {', '.join(allowed)}"
                self.fail(pointer_to(pointer, key), expected, key, nearest)
        return {key: document[key] for key in document if key in allowed}

    def path(self, document: Json, pointer: str) -> Path | None:
        """A path."""
        if not isinstance(document, str):
            self.fail(pointer, "a path", document)
            return None
        try:
            return compile_path(document)
        except PathSyntaxError as error:
            problem = f"a path ({error.problem})"
            nearest = error.nearest
            self.problems.append(
                Problem(pointer, "bad_path", problem, short_json(document), nearest)
            )
            return None

    def list_of(
        self, document: Json, pointer: str, one: Callable[[Json, str], Any], least: int = 1
    ) -> tuple[Any, ...]:
        """A list of at least `least`, each entry parsed by `one`; those that fail are left out."""
        if not isinstance(document, list) or len(document) < least:
            self.fail(pointer, f"a list of at least {least}", document)
            return ()
        parsed = [one(entry, f"{pointer}/{i}") for i, entry in enumerate(document)]
        return tuple(entry for entry in parsed if entry is not None)

    def text(self, document: Json, pointer: str, empty: bool = False) -> str | None:
        """A text, not empty unless `empty`."""
        if isinstance(document, str) and (document or empty):
            return document
        self.fail(pointer, "a text" if empty else "a text that is not empty", document)
        return None

    def each(self, document: Json, pointer: str) -> tuple[Path, ...]:
        """A path, or a list of paths walked in step."""
        if isinstance(document, list):
            return self.list_of(document, pointer, self.path, least=2)
        path = self.path(document, pointer)
        return (path,) if path else ()

    # --- values

    def value(self, document: Json, pointer: str) -> Value | None:
        """A value in any of its forms (version 2)."""
        if isinstance(document, str):
            path = self.path(document, pointer)
            return Value(kind="path", path=path) if path else None
        if isinstance(document, list):
            return self._concat(document, pointer)
        if not isinstance(document, dict):
            self.fail(pointer, "a path, a list of values, or an object", document)
            return None
        forms = [form for form in _FORMS if form in document]
        if len(forms) != 1:
            self.fail(pointer, f"exactly one of the keys {', '.join(_FORMS)}", list(document))
            return None
        return self._form(forms[0], document, pointer)

    def _concat(self, document: list[Json], pointer: str) -> Value | None:
        parts = self.list_of(document, pointer, self.value)
        if len(document) == 1:
            return parts[0] if parts else None
        return Value(kind="concat", parts=parts) if parts else None

    def _form(self, form: ValueKind, document: dict[str, Json], pointer: str) -> Value | None:
        modifiers = () if form == "literal" else _MODIFIERS
        document = self.object(document, pointer, (form, *modifiers))
        if form == "literal":
            literal = self.text(document[form], f"{pointer}/literal")
            return Value(kind=form, literal=literal) if literal else None
        modified = self._modifiers(document, pointer)
        body = self._body(form, document[form], f"{pointer}/{form}")
        return Value(kind=form, **body, **modified) if body else None

    def _body(self, form: ValueKind, document: Json, pointer: str) -> dict[str, Any]:
        if form == "path":
            path = self.path(document, pointer)
            return {"path": path} if path else {}
        if form == "template":
            template = self._template(document, pointer)
            return {"template": template} if template else {}
        parts = self.list_of(document, pointer, self.value, least=2 if form == "any_of" else 1)
        return {"parts": parts} if parts else {}

    def _template(self, document: Json, pointer: str) -> tuple[str | Path, ...] | None:
        text = self.text(document, pointer)
        if text is None:
            return None
        pieces = _PLACEHOLDER.split(text)
        if len(pieces) == 1 or any("{{" in p or "}}" in p for p in pieces):
            self.fail(pointer, "a template with balanced {{path}} placeholders", document)
            return None
        parts = [
            self.path(piece.strip(), pointer) if number % 2 else piece
            for number, piece in enumerate(pieces)
        ]
        return None if None in parts else tuple(part for part in parts if part)

    def _modifiers(self, document: dict[str, Json], pointer: str) -> dict[str, Any]:
        readers: dict[str, tuple[str, Callable[[Json, str], Any]]] = {
            "each": ("each", self.each),
            "pick": ("pick", self.value),
            "map": ("map", self._map),
            "as": ("as_json", self._as),
            "replace": ("replace", self._replace),
            "label": ("label", self._label),
            "sep": ("sep", lambda d, p: self.text(d, p, empty=True)),
        }
        parsed = {
            field: read(document[key], f"{pointer}/{key}")
            for key, (field, read) in readers.items()
            if key in document
        }
        return {field: parsed[field] for field in parsed if parsed[field] is not None}

    def _map(self, document: Json, pointer: str) -> dict[str, Any] | None:
        if isinstance(document, dict) and document and all(map(is_scalar, document.values())):
            return document
        self.fail(pointer, "an object of text to text, number, boolean or null", document)
        return None

    def _as(self, document: Json, pointer: str) -> bool | None:
        if document == "json":
            return True
        self.fail(pointer, '"json"', document)
        return None

    def _replace(self, document: Json, pointer: str) -> dict[str, str] | None:
        texts = isinstance(document, dict) and all(isinstance(v, str) for v in document.values())
        if texts and document and "" not in document:
            return dict(document)
        self.fail(pointer, "an object of text to text, no key empty", document)
        return None

    def _label(self, document: Json, pointer: str) -> str | None:
        if isinstance(document, str) and _LABEL.fullmatch(document):
            return document
        self.fail(pointer, 'a label such as "A. ", "(a) ", "1) " or "0: "', document)
        return None

    # --- messages

    def role(self, document: Json, pointer: str) -> MessageRole | None:
        """A role: fixed, from the data, in turn, or by splitting."""
        if isinstance(document, str):
            return self._fixed_role(document, pointer)
        if isinstance(document, list):
            roles = self.list_of(document, pointer, self._fixed_role, least=2)
            return RoleInTurn(roles=roles) if roles else None
        if isinstance(document, dict) and "split" in document:
            document = self.object(document, pointer, ("split",))
            markers = self._role_map(document["split"], f"{pointer}/split")
            return RoleSplit(markers=markers) if markers else None
        if isinstance(document, dict) and "path" in document:
            document = self.object(document, pointer, ("path", "map"))
            path = self.path(document["path"], f"{pointer}/path")
            stated = document.get("map")
            role_map = None if stated is None else self._role_map(stated, f"{pointer}/map")
            return RoleFromData(path=path, map=role_map) if path else None
        self.fail(pointer, "a role, a list of roles, {path, map} or {split}", document)
        return None

    def _fixed_role(self, document: Json, pointer: str) -> Role | None:
        for role in ROLES:
            if document == role:
                return role
        close = difflib.get_close_matches(str(document), ROLES, 1)
        self.fail(pointer, f"one of {', '.join(ROLES)}", document, close[0] if close else None)
        return None

    def _role_map(self, document: Json, pointer: str) -> dict[str, Role | None] | None:
        if not isinstance(document, dict) or not document or "" in document:
            self.fail(pointer, "an object of text to role or null", document)
            return None
        return {
            key: None if role is None else self._fixed_role(role, pointer_to(pointer, key))
            for key, role in document.items()
        }

    def message(self, document: Json, pointer: str) -> Message | None:
        """One entry of `messages` (version 2)."""
        document = self.object(document, pointer, ("each", "role", "content", "loss_mask"))
        role = self._required(document, pointer, "role", self.role)
        content = self._required(document, pointer, "content", self.optional)
        each = self.each(document["each"], f"{pointer}/each") if "each" in document else ()
        mask = document.get("loss_mask")
        if mask is not None and not isinstance(mask, bool):
            mask = self.value(mask, f"{pointer}/loss_mask")
        if role is None:
            return None
        return Message(role=role, content=content, each=each, loss_mask=mask)

    def _required(
        self, document: dict[str, Json], pointer: str, key: str, read: Callable[[Json, str], Any]
    ) -> Any:  # noqa: ANN401 - whatever `read` gives
        if key not in document:
            self.fail(f"{pointer}/{key}", f"the key {key}", list(document))
            return None
        return read(document[key], f"{pointer}/{key}")

    def optional(self, document: Json, pointer: str) -> Value | None:
        """A value or null."""
        return None if document is None else self.value(document, pointer)

    # --- records

    def condition(self, document: Json, pointer: str) -> Condition | None:
        """One condition of `where`."""
        document = self.object(document, pointer, ("path", *_CONDITIONS))
        path = self._required(document, pointer, "path", self.path)
        ops = [op for op in _CONDITIONS if op in document]
        if len(ops) != 1:
            self.fail(pointer, f"exactly one of {', '.join(_CONDITIONS)}", list(document))
            return None
        stated, place = document[ops[0]], f"{pointer}/{ops[0]}"
        if ops[0] in ("in", "not_in"):
            if not (isinstance(stated, list) and stated and all(map(is_scalar, stated))):
                self.fail(place, "a list of text, numbers, booleans or null", stated)
                return None
            return Condition(path=path, op=ops[0], values=tuple(stated)) if path else None
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 0:
            self.fail(place, "a number of characters, 0 or more", stated)
            return None
        return Condition(path=path, op=ops[0], limit=stated) if path else None

    def layout(self, document: dict[str, Json], pointer: str) -> Layout:
        """The keys that say how one record is made (version 2)."""
        if document.get("text") is not None and document.get("messages") is not None:
            self.fail(pointer, "text or messages, not both", ["text", "messages"])
        each = self.each(document["each"], f"{pointer}/each") if "each" in document else ()
        if len(each) > 1:
            self.fail(f"{pointer}/each", "one path", document["each"])
        messages = document.get("messages")
        parsed: dict[str, Any] = {
            key: self.optional(document.get(key), f"{pointer}/{key}")
            for key in ("text", "system", "tools")
        }
        if messages is not None:
            messages = self.list_of(messages, f"{pointer}/messages", self.message)
        where: tuple[Condition, ...] = ()
        if "where" in document:
            where = self.list_of(document["where"], f"{pointer}/where", self.condition)
        return Layout(
            each=each[0] if each else None,
            where=where,
            messages=messages or None,
            meta=self.meta(document.get("meta"), f"{pointer}/meta", self.value),
            **parsed,
        )

    def meta(
        self, document: Json, pointer: str, read: Callable[[Json, str], Value | None]
    ) -> dict[str, Value]:
        """The six meta keys; null and absent keys take the defaults."""
        if document is None:
            return {}
        stated = self.object(document, pointer, META_KEYS)
        parsed = {
            k: read(stated[k], f"{pointer}/{k}") for k in META_KEYS if stated.get(k) is not None
        }
        return {key: value for key, value in parsed.items() if value}

    def group(self, document: Json, pointer: str) -> Group | None:
        """The `group` block."""
        document = self.object(document, pointer, ("by", "sort"))
        by = self._required(document, pointer, "by", lambda d, p: self.list_of(d, p, self.path))
        sort = self.path(document["sort"], f"{pointer}/sort") if "sort" in document else None
        return Group(by=by, sort=sort) if by else None

    def source(self, document: Json, pointer: str) -> SourceSpec:
        """The `source` block."""
        block = self.object(document, pointer, (*_SOURCE_KEYS, "json_fields"))
        if isinstance(document, dict) and not document:
            self.fail(pointer, "at least one fact, or no source at all", document)
        good: dict[str, Json] = {}
        for key, stated in block.items():
            place = f"{pointer}/{key}"
            if key in ("files", "columns"):
                good[key] = list(self.list_of(stated, place, self.text))
                self._unique(stated, place, key == "columns")
            elif key == "json_fields":
                paths = self.list_of(stated, place, self.path)
                good[key] = [path.text for path in paths]
                self._unique(stated, place, True)
            elif key == "root":
                path = self.path(stated, place)
                good[key] = path.text if path else None
            else:
                good[key] = self._file_fact(key, stated, place)
        return SourceSpec.from_document({k: v for k, v in good.items() if v is not None})

    def _unique(self, document: Json, pointer: str, needed: bool) -> None:
        if needed and isinstance(document, list):
            texts = [entry for entry in document if isinstance(entry, str)]
            if len(set(texts)) < len(texts):
                self.fail(pointer, "every entry once", document)

    def _file_fact(self, key: str, stated: Json, pointer: str) -> str | None:
        if key == "format" and stated not in _FORMATS:
            close = difflib.get_close_matches(str(stated), _FORMATS, 1)
            self.fail(pointer, f"one of {', '.join(_FORMATS)}", stated, close[0] if close else None)
            return None
        if key == "quote" and isinstance(stated, str) and len(stated) > 1:
            self.fail(pointer, "one character, or empty for no quoting", stated)
            return None
        return self.text(stated, pointer, empty=key == "quote")

    # --- documents

    def version2(self, document: dict[str, Json]) -> Mapping:
        """A version 2 document."""
        document = self.object(document, "", _V2_KEYS)
        targets = [key for key in ("text", "messages", "any_of") if key in document]
        if len(targets) != 1:
            self.fail("", "exactly one of text, messages, any_of", targets)
        variants: tuple[Layout, ...] = ()
        if "any_of" in document:
            variants = self.list_of(document["any_of"], "/any_of", self._variant, least=2)
        if len({_layout_kind((variant,)) for variant in variants} - {"irrelevant"}) > 1:
            self.fail("/any_of", "alternatives that all give text, or all give messages", targets)
        provenance = document.get("provenance")
        if "provenance" in document and not isinstance(provenance, dict):
            self.fail("/provenance", "an object", provenance)
        source = document.get("source")
        group = document.get("group")
        outer = self.layout(document, "")
        return Mapping(
            kind=_layout_kind((outer, *variants)),
            outer=outer,
            any_of=variants,
            source=self.source(source, "/source") if "source" in document else SourceSpec(),
            group=self.group(group, "/group") if "group" in document else None,
            provenance=provenance,
        )

    def _variant(self, document: Json, pointer: str) -> Layout | None:
        return self.layout(self.object(document, pointer, _VARIANT_KEYS), pointer)

    def version1(self, document: dict[str, Json]) -> Mapping:
        """A version 1 document: the contract's own form, valid for ever."""
        target = "messages" if "messages" in document else "text"
        keys = ("messages", "system", "meta") if target == "messages" else ("text", "meta")
        document = self.object(document, "", keys)
        if target not in document:
            self.fail("", "text or messages (or version 2)", list(document))
        body = document.get(target)
        text = messages = None
        if target == "text":
            text = self.content1(body, "/text")
        elif body is not None:
            messages = self.list_of(body, "/messages", self.message1)
        system = document.get("system")
        layout = Layout(
            text=text,
            messages=messages or None,
            system=self.literal_or_path(system, "/system") if system is not None else None,
            meta=self.meta(document.get("meta"), "/meta", self.literal_or_path),
        )
        return Mapping(kind=_layout_kind((layout,)), outer=layout)

    def message1(self, document: Json, pointer: str) -> Message | None:
        """One entry of `messages` (version 1)."""
        document = self.object(document, pointer, ("role", "content", "loss_mask"))
        role = self._required(document, pointer, "role", self._fixed_role)
        content = self._required(document, pointer, "content", self.content1)
        mask = document.get("loss_mask")
        if mask is not None and not isinstance(mask, bool):
            self.fail(f"{pointer}/loss_mask", "true, false or null", mask)
            mask = None
        return Message(role=role, content=content, loss_mask=mask) if role else None

    def content1(self, document: Json, pointer: str) -> Value | None:
        """A path, a list of paths, or null (version 1)."""
        if document is None:
            return None
        if isinstance(document, list):
            paths = self.list_of(document, pointer, self.path)
            parts = tuple(Value(kind="path", path=path) for path in paths)
            return parts[0] if len(parts) == 1 else Value(kind="concat", parts=parts)
        path = self.path(document, pointer)
        return Value(kind="path", path=path) if path else None

    def literal_or_path(self, document: Json, pointer: str) -> Value | None:
        """A bare string of version 1 that may be a literal, settled by the rule of the binder."""
        key = pointer.rsplit("/", 1)[-1]
        if key not in ("source", "language", "system"):
            path = self.path(document, pointer)
            return Value(kind="path", path=path) if path else None
        text = self.text(document, pointer)
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
