"""The mapping language as values: what a parsed mapping document says, and the way back.

Every form of a value becomes one `Value`; a bare string or a list is only a spelling of it.
docs/mapping.md is the reference of the language.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ingot.converters.paths import Path
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.facts import SourceSpec

Role = Literal["user", "assistant", "system", "tool"]
ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")
META_KEYS = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
Scalar = str | int | float | bool | None
Operator = Literal["in", "not_in", "min_chars", "max_chars"]
MappingKind = Literal["pt", "sft", "irrelevant"]
ValueKind = Literal["path", "concat", "any_of", "template", "literal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """Where a text or meta value comes from, with its modifiers in the order they are applied.

    Exactly one of `path`, `parts` (concat and any_of), `template` and `literal` carries the value,
    as `kind` says; a template is its literal pieces and paths in order.
    """

    kind: ValueKind
    path: Path | None = None
    parts: tuple["Value", ...] = ()
    template: tuple[str | Path, ...] = ()
    literal: str = ""
    each: tuple[Path, ...] = ()
    pick: "Value | None" = None
    map: dict[str, Scalar] | None = None
    as_json: bool = False
    replace: dict[str, str] | None = None
    label: str | None = None
    sep: str = "\n"

    @property
    def is_bare(self) -> bool:
        """True where no modifier is set."""
        modifiers = (self.each, self.pick, self.map, self.as_json, self.replace, self.label)
        return not any(modifiers) and self.sep == "\n"

    def paths(self) -> list[Path]:
        """Every path that is evaluated in the scope of this value (those inside `each` are not)."""
        own = [*self.each] if self.each else self._form_paths()
        return own + (self.pick.paths() if self.pick else [])

    def _form_paths(self) -> list[Path]:
        if self.kind == "path":
            return [self.path] if self.path else []
        if self.kind == "template":
            return [part for part in self.template if isinstance(part, Path)]
        return [path for part in self.parts for path in part.paths()]


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleFromData:
    """A role read from the data: keys of `map` match exactly, None leaves the message out."""

    path: Path
    map: dict[str, Role | None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleInTurn:
    """Roles taken in turn by the position in `each`."""

    roles: tuple[Role, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleSplit:
    """A transcript, cut at literal markers, one message per piece."""

    markers: dict[str, Role | None]


MessageRole = Role | RoleFromData | RoleInTurn | RoleSplit


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One entry of `messages`; `content` None = that message does not exist in this data set."""

    role: MessageRole
    content: Value | None
    each: tuple[Path, ...] = ()
    loss_mask: bool | Value | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition of `where` on the first hit of a path."""

    path: Path
    op: Operator
    values: tuple[Scalar, ...] = ()
    limit: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Rows of one file with equal keys become one row, the list of them, sorted by `sort`."""

    by: tuple[Path, ...]
    sort: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How one record is made: an alternative, or the outer keys of the mapping.

    `text` and `messages` are None where the layout does not state them.
    """

    each: Path | None = None
    where: tuple[Condition, ...] = ()
    text: Value | None = None
    messages: tuple[Message, ...] | None = None
    system: Value | None = None
    tools: Value | None = None
    meta: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """A bound mapping: nothing in it is interpreted again per record.

    `kind` is `pt` or `sft`, or `irrelevant` where the document maps nothing. `outer` holds the keys
    of the document itself, `any_of` the alternatives, `warnings` what was noticed while binding.
    """

    kind: MappingKind
    outer: Layout
    any_of: tuple[Layout, ...] = ()
    source: SourceSpec = SourceSpec()
    group: Group | None = None
    provenance: MappingDocument | None = None
    warnings: tuple[str, ...] = ()

    def alternatives(self) -> tuple[Layout, ...]:
        """The whole layouts in order: the alternatives laid over the outer keys, or those alone."""
        return tuple(merge_layout(self.outer, variant) for variant in self.any_of) or (self.outer,)


def merge_layout(outer: Layout, variant: Layout) -> Layout:
    """An alternative over the outer keys: `meta` key by key, `where` both, all else replaces."""
    return Layout(
        each=variant.each or outer.each,
        where=outer.where + variant.where,
        text=variant.text or outer.text,
        messages=variant.messages or outer.messages,
        system=variant.system or outer.system,
        tools=variant.tools or outer.tools,
        meta={**outer.meta, **variant.meta},
    )


def value_document(value: Value) -> Json:
    """The shortest spelling of a value in a version 2 document."""
    if value.kind == "literal":
        return {"literal": value.literal}
    if value.is_bare and value.kind == "path" and value.path:
        return value.path.text
    if value.is_bare and value.kind == "concat" and len(value.parts) > 1:
        return [value_document(part) for part in value.parts]
    return {value.kind: _form_document(value), **_modifiers_document(value)}


def _form_document(value: Value) -> Json:
    if value.kind == "path":
        return value.path.text if value.path else ""
    if value.kind == "template":
        return "".join(p if isinstance(p, str) else f"{{{{{p.text}}}}}" for p in value.template)
    return [value_document(part) for part in value.parts]


def _modifiers_document(value: Value) -> MappingDocument:
    stated = {
        "each": each_document(value.each),
        "pick": _optional_document(value.pick),
        "map": value.map,
        "as": "json" if value.as_json else None,
        "replace": value.replace,
        "label": value.label,
        "sep": value.sep if value.sep != "\n" else None,
    }
    return _drop_none(stated)


def _drop_none(document: MappingDocument) -> MappingDocument:
    return {key: value for key, value in document.items() if value is not None}


def _optional_document(value: Value | None) -> Json:
    return value_document(value) if value else None


def each_document(each: tuple[Path, ...]) -> Json:
    """`each` as it stands in a document: nothing, one path, or paths walked in step."""
    if not each:
        return None
    return each[0].text if len(each) == 1 else [path.text for path in each]


def _role_document(role: MessageRole) -> Json:
    if isinstance(role, RoleFromData):
        return _drop_none({"path": role.path.text, "map": role.map})
    if isinstance(role, RoleInTurn):
        return list(role.roles)
    return {"split": role.markers} if isinstance(role, RoleSplit) else role


def _message_document(message: Message) -> MappingDocument:
    each, mask = each_document(message.each), message.loss_mask
    return {
        **_drop_none({"each": each}),
        "role": _role_document(message.role),
        "content": _optional_document(message.content),
        **_drop_none({"loss_mask": value_document(mask) if isinstance(mask, Value) else mask}),
    }


def _condition_document(condition: Condition) -> MappingDocument:
    counted = condition.op in ("min_chars", "max_chars")
    stated: Json = condition.limit if counted else list(condition.values)
    return {"path": condition.path.text, condition.op: stated}


def _layout_document(layout: Layout) -> MappingDocument:
    meta = {key: value_document(layout.meta[key]) for key in META_KEYS if key in layout.meta}
    stated = {
        "each": layout.each.text if layout.each else None,
        "where": [_condition_document(one) for one in layout.where] or None,
        "text": _optional_document(layout.text),
        "messages": [_message_document(one) for one in layout.messages or ()] or None,
        "system": _optional_document(layout.system),
        "tools": _optional_document(layout.tools),
        "meta": meta or None,
    }
    return _drop_none(stated)


def to_document(mapping: Mapping) -> MappingDocument:
    """The version 2 document of a mapping: unambiguous, in a fixed order, defaults left out."""
    group = mapping.group
    keys = group and [path.text for path in group.by]
    sort = group.sort.text if group and group.sort else None
    stated = {
        "version": 2,
        "source": mapping.source.to_document() or None,
        "group": _drop_none({"by": keys, "sort": sort}) or None,
        **_layout_document(mapping.outer),
        "any_of": [_layout_document(variant) for variant in mapping.any_of] or None,
    }
    document = _drop_none(stated)
    if not mapping.any_of and mapping.kind == "irrelevant":
        document["text"] = None
    return document | _drop_none({"provenance": mapping.provenance})


Need = Literal["required", "part", "optional"]
Scope = tuple[tuple[Path, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PathUse:
    """One path of a mapping in its place.

    `scope` are the `each` around it, outermost first; `need` says what its absence costs: the
    record (`required`), a part of a text (`part`), or an optional value. `of_row` marks the keys of
    `group`, which are looked up in the rows before they are grouped.
    """

    pointer: str
    path: Path
    scope: Scope
    need: Need
    of_row: bool = False


def path_uses(mapping: Mapping) -> Iterator[PathUse]:
    """Every path of a mapping with its pointer into the version 2 document."""
    if mapping.group:
        keys = {f"/group/by/{n}": path for n, path in enumerate(mapping.group.by)}
        if mapping.group.sort:
            keys["/group/sort"] = mapping.group.sort
        for pointer, path in keys.items():
            yield PathUse(pointer=pointer, path=path, scope=(), need="required", of_row=True)
    yield from _layout_uses(mapping.outer, mapping.outer.each, "")
    for number, variant in enumerate(mapping.any_of):
        each = merge_layout(mapping.outer, variant).each
        yield from _layout_uses(variant, each, f"/any_of/{number}")


def _layout_uses(layout: Layout, each: Path | None, pointer: str) -> Iterator[PathUse]:
    if layout.each:
        yield PathUse(pointer=f"{pointer}/each", path=layout.each, scope=(), need="required")
    scope: Scope = ((each,),) if each else ()
    for number, condition in enumerate(layout.where):
        place = f"{pointer}/where/{number}/path"
        yield PathUse(pointer=place, path=condition.path, scope=scope, need="part")
    if layout.text:
        yield from _value_uses(layout.text, f"{pointer}/text", scope, "required")
    for number, message in enumerate(layout.messages or ()):
        yield from _message_uses(message, f"{pointer}/messages/{number}", scope)
    for key in ("system", "tools"):
        value = getattr(layout, key)
        if value:
            yield from _value_uses(value, f"{pointer}/{key}", scope, "optional")
    for key, value in layout.meta.items():
        yield from _value_uses(value, f"{pointer}/meta/{key}", scope, "optional")


def _message_uses(message: Message, pointer: str, scope: Scope) -> Iterator[PathUse]:
    yield from _each_uses(message.each, pointer, scope, "required")
    inner = (*scope, message.each) if message.each else scope
    if isinstance(message.role, RoleFromData):
        path = message.role.path
        yield PathUse(pointer=f"{pointer}/role/path", path=path, scope=inner, need="required")
    if message.content:
        yield from _value_uses(message.content, f"{pointer}/content", inner, "required")
    if isinstance(message.loss_mask, Value):
        yield from _value_uses(message.loss_mask, f"{pointer}/loss_mask", inner, "optional")


def _each_uses(each: tuple[Path, ...], pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    for number, path in enumerate(each):
        place = f"{pointer}/each/{number}" if len(each) > 1 else f"{pointer}/each"
        yield PathUse(pointer=place, path=path, scope=scope, need=need)


def _value_uses(value: Value, pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    yield from _each_uses(value.each, pointer, scope, need)
    inner = (*scope, value.each) if value.each else scope
    spelt = value_document(value)
    if value.path:
        place = pointer if isinstance(spelt, str) else f"{pointer}/path"
        yield PathUse(pointer=place, path=value.path, scope=inner, need=need)
    part_need: Need = "part" if need == "required" else need
    for path in value.template:
        if isinstance(path, Path):
            yield PathUse(pointer=f"{pointer}/template", path=path, scope=inner, need=part_need)
    base = pointer if isinstance(spelt, list) else f"{pointer}/{value.kind}"
    for number, part in enumerate(value.parts):
        yield from _value_uses(part, f"{base}/{number}", inner, part_need)
    if value.pick:
        yield from _value_uses(value.pick, f"{pointer}/pick", scope, part_need)


_ASKING_ROLES = ("user", "tool")
_IN_STEP = re.compile(r"\[([0-9]+)\]\.?(.*)")
_OPTION = re.compile(r"(?:^|\W)[(\[]?[A-Za-z0-9][.):\]]\s*$")

Leaf = tuple[str, tuple[str, ...]]  # a path from the row on, and how its hits are changed


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPath:
    """One path on both sides: where it answers, where it asks (JSON Pointers), and the path."""

    answer: str
    question: str
    path: str


def shared_paths(mapping: Mapping) -> Iterator[SharedPath]:
    """Every path that the user's side and the assistant's side of one layout both take plainly."""
    seen: set[tuple[str, str]] = set()
    for pointer, layout in _layouts(mapping):
        asked = {leaf: place for place, leaf in _leaves(layout, pointer, _ASKING_ROLES)}
        for place, leaf in _leaves(layout, pointer, ("assistant",)):
            if leaf in asked and (place, leaf[0]) not in seen:
                seen.add((place, leaf[0]))
                yield SharedPath(answer=place, question=asked[leaf], path=leaf[0])


def _layouts(mapping: Mapping) -> Iterator[tuple[str, Layout]]:
    if not mapping.any_of:
        yield "", mapping.outer
    for number, variant in enumerate(mapping.any_of):
        pointer = f"/any_of/{number}" if variant.messages else ""
        yield pointer, merge_layout(mapping.outer, variant)


def _leaves(layout: Layout, pointer: str, roles: tuple[str, ...]) -> Iterator[tuple[str, Leaf]]:
    for number, message in enumerate(layout.messages or ()):
        if message.role in roles and message.content:
            place = f"{pointer}/messages/{number}/content"
            for path, changes in _value_leaves(message.content):
                yield place, (outer_path(message.each, path), changes)


def _value_leaves(value: Value) -> Iterator[Leaf]:
    """The paths that a value always takes; of `any_of` nobody knows which it is."""
    if value.kind in ("any_of", "literal"):
        return
    changes = tuple(_modifier_texts(value))
    for path, inner in _own_leaves(value):
        yield outer_path(value.each, path), (*inner, *changes)


def _own_leaves(value: Value) -> Iterator[Leaf]:
    if value.path:
        yield value.path.text, ()
    for number, piece in enumerate(value.template):
        if isinstance(piece, Path):
            before = value.template[number - 1] if number else ""
            labelled = isinstance(before, str) and _OPTION.search(before)
            yield piece.text, ("option",) if labelled else ()
    for part in value.parts:
        yield from _value_leaves(part)


def _modifier_texts(value: Value) -> Iterator[str]:
    if value.pick:
        yield "pick"
    if value.label:
        yield "label"
    for word, table in (("map", value.map), ("replace", value.replace)):
        if table:
            yield f"{word} {sorted(table.items(), key=str)}"


def outer_path(each: tuple[Path, ...], path: str) -> str:
    """A path as seen from outside of its `each`."""
    if not each:
        return path
    around = each[0].text
    if len(each) > 1:
        step = _IN_STEP.fullmatch(path)
        if step is None or int(step[1]) >= len(each):
            return f"{' with '.join(one.text for one in each)} › {path}"
        around, path = each[int(step[1])].text, step[2] or "$"
    if path == "$":
        return around
    return f"{around}{path}" if path.startswith("[") else f"{around}.{path}"
