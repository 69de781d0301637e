"""The mapping language as values: what a parsed mapping document says, and the way back.

Every form of a value becomes one `Value`; a bare string or a list is only a spelling of it.
docs/mapping.md is the reference of the language.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, get_args

from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Path
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.facts import SourceSpec

Role = Literal["user", "assistant", "system", "tool"]
ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")
META_KEYS = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
Scalar = str | int | float | bool | None
Place = Annotated[Path, "or a lookup in its place"]
Operator = Literal["in", "not_in", "min_chars", "max_chars"]
MappingKind = Literal["pt", "sft", "irrelevant"]
ValueKind = Literal["path", "concat", "any_of", "template", "tree", "literal"]
FORMS: tuple[ValueKind, ...] = get_args(ValueKind)
TREE_KEYS = ("text", "children", "depth")  # beside `tree`
# What stands at the key of a modifier: a path or paths in step, a value, texts to what they become
# (`map` looks whole hits up, `texts` replaces inside them), or one text or number.
ModifierKind = Literal["each", "value", "map", "texts", "plain"]
# What the absence of a path costs: the record, a part of a text, or an optional value.
Need = Literal["required", "part", "optional"]
NEEDS: tuple[Need, ...] = get_args(Need)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """Where the paths of a field start, and what the absence of one costs.

    Attributes:
        need: what it costs, where what stands around is not needed less.
        outside: whether they start where the node stands, not at an element of its `each`.
    """

    need: Need = "required"
    outside: bool = False


_OUTSIDE = {Reach: Reach(outside=True)}
_IN_PART = {Reach: Reach(need="part")}
_OPTIONAL = {Reach: Reach(need="optional")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Modifier:
    """What a field of `Value` that modifies its hits is called and means wherever it is met.

    Its review rule is `value_` and the key; kinds `value` and `map` are compared part by part.

    Attributes:
        key: its key in a document.
        kind: what stands at the key.
        words: how people read it, with `{}` for what is stated.
        alters: whether the same path gives another text with it.
        brings_text: whether texts stand in it that no row holds.
    """

    key: str
    kind: ModifierKind
    words: str
    alters: bool = False
    brings_text: bool = False


def _declare(key: str, kind: ModifierKind, words: str, **flags: bool) -> dict[type, Modifier]:
    """Declare a modifier beside its field."""
    return {Modifier: Modifier(key=key, kind=kind, words=words, **flags)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """Nodes from `path` on, each followed by those at its `children`, down to `depth` levels."""

    path: Path = field(metadata=_OUTSIDE)
    children: Path = field(metadata=_IN_PART)
    text: "Value" = field(metadata=_IN_PART)  # of a node itself
    depth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """Where a text or meta value comes from, with its modifiers in the order they are applied.

    Exactly one of `path`, `parts` (concat and any_of), `template`, `tree` and `literal` carries the
    value, as `kind` says; a template is its literal pieces and paths in order.
    """

    kind: ValueKind
    each: tuple[Path, ...] = field(
        default=(), metadata=_declare("each", "each", "for each {}") | _OUTSIDE
    )
    path: Place | None = None
    parts: tuple["Value", ...] = field(default=(), metadata=_IN_PART)
    template: tuple[str | Path, ...] = field(default=(), metadata=_IN_PART)
    tree: Tree | None = None
    literal: str = ""
    pick: "Value | None" = field(
        default=None,
        metadata=_declare("pick", "value", "picked by {}", alters=True)
        | {Reach: Reach(need="part", outside=True)},
    )
    map: dict[str, Scalar] | None = field(
        default=None,
        metadata=_declare("map", "map", "(map {})", alters=True, brings_text=True),
    )
    as_json: bool = field(default=False, metadata=_declare("as", "plain", "(as {})"))
    replace: dict[str, str] | None = field(
        default=None,
        metadata=_declare("replace", "texts", "(replace {})", alters=True, brings_text=True),
    )
    label: str | None = field(
        default=None, metadata=_declare("label", "plain", "(label {})", alters=True)
    )
    sep: str = field(default="\n", metadata=_declare("sep", "plain", "(sep {})", brings_text=True))
    # The first number of a `pick`, in the value that picks.
    count_from: int = field(default=0, metadata=_declare("from", "plain", "(counted from {})"))

    @property
    def is_bare(self) -> bool:
        """True where no modifier is set."""
        return not self.modifiers()

    @property
    def is_spelled_short(self) -> bool:
        """True where a document says only what the value holds: a path, or a list of parts."""
        joined = self.kind == "concat" and len(self.parts) > 1
        return self.is_bare and (self.kind == "path" or joined)

    def modifiers(self) -> dict[Modifier, Any]:
        """Return the modifiers that are set, in the order in which they are applied."""
        return {
            one.metadata[Modifier]: getattr(self, one.name)
            for one in fields(self)
            if Modifier in one.metadata and getattr(self, one.name) != one.default
        }

    def without_own_texts(self) -> "Value":
        """Return the value without the modifiers that bring texts which no row holds."""
        own: dict[str, Any] = {
            one.name: one.default
            for one in fields(self)
            if Modifier in one.metadata and one.metadata[Modifier].brings_text
        }
        return replace(self, **own)

    def picking_values(self) -> dict[str, "Value"]:
        """Return the values that stand in modifiers, by key; they start where this value stands."""
        return {one.key: value for one, value in self.modifiers().items() if one.kind == "value"}

    def paths(self) -> list[Path]:
        """Every path that is evaluated in the scope of this value, not inside `each` or a tree."""
        own = [*self.each] if self.each else self._form_paths()
        return own + [path for one in self.picking_values().values() for path in one.paths()]

    def _form_paths(self) -> list[Path]:
        if self.kind == "path":
            return [self.path] if self.path else []
        if self.tree:
            return [self.tree.path]
        if self.kind == "template":
            return [part for part in self.template if isinstance(part, Path)]
        return [path for part in self.parts for path in part.paths()]


MODIFIERS: tuple[Modifier, ...] = tuple(
    one.metadata[Modifier] for one in fields(Value) if Modifier in one.metadata
)


def add_pick(value: MappingDocument, choice: Json) -> MappingDocument:
    """Keep one hit of a value, the one whose number or letter `choice` gives."""
    return {**value, "pick": choice}


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleFromData:
    """A role read from the data: keys of `map` match exactly, None leaves the message out.

    The key `*` stands for any other value, but not for a value that is missing or null. With
    `order` in place of a map, the first distinct value of a record has the first role, and so on.
    """

    path: Place
    map: dict[str, Role | None] | None = None
    order: tuple[Role, ...] = ()


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
class Condition:
    """One condition of `where` on the first hit of a path."""

    path: Place
    op: Operator
    values: tuple[Scalar, ...] = ()
    limit: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One entry of `messages`."""

    each: tuple[Path, ...] = field(default=(), metadata=_OUTSIDE)
    # Elements of `each` for which it does not hold are left out.
    where: tuple[Condition, ...] = field(default=(), metadata=_IN_PART)
    role: MessageRole
    content: Value | None  # None: that message does not exist in this data set
    loss_mask: bool | Value | None = field(default=None, metadata=_OPTIONAL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Rows of one file with equal keys become one row, the list of them, sorted by `sort`."""

    by: tuple[Path, ...]
    sort: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How one record is made: an alternative, or the outer keys of the mapping."""

    each: tuple[Path, ...] = field(default=(), metadata=_OUTSIDE)
    where: tuple[Condition, ...] = field(default=(), metadata=_IN_PART)
    text: Value | None = None
    messages: tuple[Message, ...] | None = None
    system: Value | None = field(default=None, metadata=_OPTIONAL)
    tools: Value | None = field(default=None, metadata=_OPTIONAL)
    meta: dict[str, Value] = field(default_factory=dict, metadata=_OPTIONAL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """A bound mapping: nothing in it is interpreted again per record."""

    kind: MappingKind  # `irrelevant` where the document maps nothing
    outer: Layout  # the keys of the document itself
    any_of: tuple[Layout, ...] = ()  # the alternatives
    source: SourceSpec = SourceSpec()
    group: Group | None = None
    provenance: MappingDocument | None = None
    warnings: tuple[str, ...] = ()  # what was noticed while binding

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


def path_document(path: Path) -> Json:
    """A path, or a lookup in its place, as it stands in a document."""
    if isinstance(path, Lookup):
        return {name: part.text for name, part in path.parts.items()}
    return path.text


def value_document(value: Value) -> Json:
    """The shortest spelling of a value in a version 2 document."""
    body = _form_document(value)
    if value.is_spelled_short:
        return body
    stated = {one.key: _stated_document(one.key, said) for one, said in value.modifiers().items()}
    return {value.kind: body, **_tree_document(value.tree), **stated}


def _form_document(value: Value) -> Json:
    if value.kind == "literal":
        return value.literal
    if value.kind == "template":
        return template_text(value)
    return part_document(value.parts or (value.tree.path if value.tree else value.path))


def template_text(value: Value) -> str:
    """Write a template with its paths in {{ }}."""
    return "".join(p if isinstance(p, str) else f"{{{{{p.text}}}}}" for p in value.template)


def _tree_document(tree: Tree | None) -> MappingDocument:
    if tree is None:
        return {}
    text, children = value_document(tree.text), tree.children.text
    return {"text": text, "children": children, "depth": tree.depth}


def _stated_document(key: str, stated: Any) -> Json:  # noqa: ANN401 - what a field holds
    """What a field holds as it stands in a document; one path of `each` stands alone."""
    if key == "each" and len(stated) == 1:
        return part_document(stated[0])
    return "json" if key == "as" else part_document(stated)


def _node_document(node: Any) -> MappingDocument:  # noqa: ANN401 - any node of the tree
    stated = {one.name: getattr(node, one.name) for one in fields(node)}
    return {
        one.name: _stated_document(one.name, stated[one.name])
        for one in fields(node)
        if _is_required(one) or stated[one.name] not in (None, (), {})
    }


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _condition_document(one: Condition) -> MappingDocument:
    return {"path": path_document(one.path), one.op: list(one.values) if one.values else one.limit}


# What is not an object with the fields of its node as keys.
_SPELLINGS: dict[type, Callable[[Any], Json]] = {
    Path: path_document,
    Lookup: path_document,
    Value: value_document,
    Condition: _condition_document,
    RoleInTurn: lambda role: list(role.roles),
    RoleSplit: lambda role: {"split": role.markers},
}


def part_document(part: object) -> Json:
    """Return a part of a mapping as it stands in a document; what is not a node stays as it is."""
    if type(part) in _SPELLINGS:
        return _SPELLINGS[type(part)](part)
    if is_dataclass(part):
        return _node_document(part)
    if isinstance(part, dict):
        return {key: part_document(one) for key, one in part.items()}
    return [part_document(one) for one in part] if isinstance(part, tuple) else part


def to_document(mapping: Mapping) -> MappingDocument:
    """The version 2 document of a mapping: unambiguous, in a fixed order, defaults left out."""
    stated = {
        "version": 2,
        "source": part_document(mapping.source),
        "group": part_document(mapping.group),
        **part_document(mapping.outer),
        "any_of": part_document(mapping.any_of),
    }
    document = {key: one for key, one in stated.items() if one not in (None, [], {})}
    if not mapping.any_of and mapping.kind == "irrelevant":
        document["text"] = None
    return document | ({"provenance": mapping.provenance} if mapping.provenance is not None else {})


def possible_roles(role: MessageRole) -> tuple[Role | None, ...]:
    """List the roles that a message may have; None leaves it out."""
    if isinstance(role, RoleFromData):
        return tuple(role.map.values()) if role.map else role.order or ROLES
    if isinstance(role, RoleSplit):
        return tuple(role.markers.values())
    return role.roles if isinstance(role, RoleInTurn) else (role,)


def speaker_roles(role: MessageRole) -> dict[str, Role | None]:
    """Return the speakers or markers that a role names, each with the role it is given."""
    if isinstance(role, RoleSplit):
        return role.markers
    return (role.map or {}) if isinstance(role, RoleFromData) else {}


def split_template(text: str) -> list[str]:
    """Cut a template: fixed text and what stands in {{ }} by turns, a fixed text first and last."""
    pieces, at = [], 0
    while (start := text.find("{{", at)) >= 0 and (end := text.find("}}", start + 3)) >= 0:
        pieces += [text[at:start], text[start + 2 : end]]
        at = end + 2
    return [*pieces, text[at:]]
