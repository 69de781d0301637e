"""The mapping language as values: what a parsed mapping document says, and the way back.

Every form of a value becomes one `Value`; a bare string or a list is only a spelling of it.
docs/mapping.md is the reference of the language.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, get_args

from ingot.converters.paths import Path
from ingot.converters.rows import Json, MappingDocument, Provenance
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
# The forms of a part of a text in which models state modifiers.
PartForm = Literal["path", "options", "template", "concat"]
TREE_KEYS = ("text", "children", "depth")  # beside `tree`
# What stands at the key of a modifier: a path or paths in step, a value, texts to what they become
# (`map` looks whole hits up, `texts` replaces inside them), its one word, or one text or number.
ModifierKind = Literal["each", "value", "map", "texts", "flag", "plain"]
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
        change: what another one means for records, as its review rule says it; "" without a rule.
        review: the class of that rule.
        taught: the forms of a part that models are taught to state it in.
        word: what stands at the key of a flag, which is the key of a flag in the form of models.
        gives: what a flag makes of a hit.
        within: the modifier in whose value it stands.
        alters: whether the same path gives another text with it.
        brings_text: whether texts stand in it that no row holds.
    """

    key: str
    kind: ModifierKind
    words: str
    change: str = ""
    review: str = "breaking"
    taught: tuple[PartForm, ...] = ()
    word: str = ""
    gives: str = ""
    within: str = ""
    alters: bool = False
    brings_text: bool = False

    @property
    def typed(self) -> str:
        """Return how a flag is typed behind a path."""
        return f"{self.key.replace('_', ' ')} {self.word}"

    def is_silent(self, stated: object) -> bool:
        """Return whether what is stated says nothing: an empty separator says something."""
        default = MODIFIERS[self]
        return stated in (None, default) or not (stated or default)


def _declare(key: str, kind: ModifierKind, words: str, **more: Any) -> dict[type, Modifier]:  # noqa: ANN401 - the other attributes
    """Declare a modifier beside its field."""
    return {Modifier: Modifier(key=key, kind=kind, words=words, **more)}


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
        default=(),
        metadata=_declare(
            "each",
            "each",
            "for each {}",
            change="A value is built from other elements.",
            taught=("template", "concat"),
        )
        | _OUTSIDE,
    )
    path: Place | None = None
    parts: tuple["Value", ...] = field(default=(), metadata=_IN_PART)
    template: tuple[str | Path, ...] = field(default=(), metadata=_IN_PART)
    tree: Tree | None = None
    literal: str = ""
    pick: "Value | None" = field(
        default=None,
        metadata=_declare(
            "pick",
            "value",
            "picked by {}",
            change="Another one of several hits is kept.",
            taught=("options",),
            alters=True,
        )
        | {Reach: Reach(need="part", outside=True)},
    )
    map: dict[str, Scalar] | None = field(
        default=None,
        metadata=_declare(
            "map",
            "map",
            "(map {})",
            change="Values are looked up that were taken as they are, or no more.",
            taught=("path",),
            alters=True,
            brings_text=True,
        ),
    )
    as_json: bool = field(
        default=False,
        metadata=_declare(
            "as",
            "flag",
            "(as {})",
            change="Lists and objects become JSON text, or no more.",
            taught=("path",),
            word="json",
            gives="the JSON text of a list or an object",
        ),
    )
    text_of_html: bool = field(
        default=False,
        metadata=_declare(
            "text_of",
            "flag",
            "(text of {})",
            change="HTML becomes the text that it shows, or no more.",
            taught=("path",),
            word="html",
            gives="the text that HTML shows",
            alters=True,
        ),
    )
    replace: dict[str, str] | None = field(
        default=None,
        metadata=_declare(
            "replace",
            "texts",
            "(replace {})",
            change="Other literal texts are replaced.",
            taught=("path",),
            alters=True,
            brings_text=True,
        ),
    )
    label: str | None = field(
        default=None,
        metadata=_declare(
            "label",
            "plain",
            "(label {})",
            change="Options are numbered otherwise.",
            taught=("options",),
            alters=True,
        ),
    )
    sep: str = field(
        default="\n",
        metadata=_declare(
            "sep",
            "plain",
            "(sep {})",
            change="Several texts are joined by another separator.",
            taught=("path", "concat"),
            brings_text=True,
        ),
    )
    # The first number of a `pick`, in the value that picks.
    count_from: int = field(
        default=0,
        metadata=_declare("from", "plain", "(counted from {})", taught=("options",), within="pick"),
    )

    @property
    def is_bare(self) -> bool:
        """Return whether no modifier is set."""
        return not self.modifiers()

    @property
    def is_spelled_short(self) -> bool:
        """Return whether a document writes only what the value holds: a path or a list of parts."""
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
        """Return every path evaluated in the scope of this value, not inside `each` or a tree."""
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


# Each modifier with what its field holds where it is not set.
MODIFIERS: dict[Modifier, Any] = {
    one.metadata[Modifier]: one.default for one in fields(Value) if Modifier in one.metadata
}
FLAGS: tuple[Modifier, ...] = tuple(one for one in MODIFIERS if one.word)


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

    outer: Layout  # the keys of the document itself
    any_of: tuple[Layout, ...] = ()  # the alternatives
    source: SourceSpec = SourceSpec()
    group: Group | None = None
    provenance: Provenance | None = field(default=None, compare=False)  # who made it
    warnings: tuple[str, ...] = field(default=(), compare=False)  # noticed while binding
    # The document of a mapping that no tree holds: of version 1, or wrong somewhere. The writer
    # gives it back as it was written; a copy with other parts has none.
    draft: MappingDocument | None = field(default=None, init=False)

    @property
    def kind(self) -> MappingKind:
        """Return what is made of the rows; `irrelevant` where the mapping maps nothing."""
        return layouts_kind((self.outer, *self.any_of))

    def alternatives(self) -> tuple[Layout, ...]:
        """Return the whole layouts in order: alternatives merged with the outer keys, or these."""
        return tuple(merge_layout(self.outer, variant) for variant in self.any_of) or (self.outer,)


def layouts_kind(layouts: tuple[Layout, ...]) -> MappingKind:
    """Return what some layouts make of the rows."""
    if any(layout.messages for layout in layouts):
        return "sft"
    return "pt" if any(layout.text for layout in layouts) else "irrelevant"


def merge_layout(outer: Layout, variant: Layout) -> Layout:
    """Merge an alternative with the outer keys: `meta` by key, `where` both, the rest replaces."""
    return Layout(
        each=variant.each or outer.each,
        where=outer.where + variant.where,
        text=variant.text or outer.text,
        messages=variant.messages or outer.messages,
        system=variant.system or outer.system,
        tools=variant.tools or outer.tools,
        meta={**outer.meta, **variant.meta},
    )


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
