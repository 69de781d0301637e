"""Which places of the rows a mapping takes texts from, as a tree of steps."""

import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ingot.converters.mapping.language import Mapping, Message, Tree
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.path_uses import Around, PathUse, path_uses
from ingot.converters.paths import Index, Key, Mark, Names, Path
from ingot.converters.rows import Json

MEDIA_KINDS: Final = re.compile(r"(?:input_)?(?:image|audio|video)(?:_url|_file)?")
# Names of fields, bare, that hold what was said beside a text: nobody stores it there for looks.
CARRIES: Final = re.compile(
    r".*(?:tool|function)(?:call|use|result|response|invocation|output)s?"
    r"|(?:reasoning|thinking|thoughts?)(?:content|text|details|blocks?|trace)?"
    r"|refusal|audio|attachments"
)
THOUGHT: Final = "thought"  # a mark on a part, which is no answer
OFFERED_TOOLS: Final = re.compile(
    r"(?:^|_)(?:tool|function)s?(?:_(?:defs?|definitions?|schemas?))?$", re.IGNORECASE
)
_TEXTS = re.compile(r"(?:/any_of/\d+)?(?:/messages/\d+/content|/text|/system|/tools)(?:/|$)")
_KNOWN = re.compile(r"(?:/any_of/\d+)?/(?:messages/\d+/(?:role|loss_mask)|meta/)")

_Step: TypeAlias = str | Index | Mark
_EACH, _VALUES, _UP, _KEY = Mark("[*]"), Mark("*"), Mark("^"), Mark("~")


def bare_name(key: str) -> str:
    """A key as `CARRIES` has it."""
    return key.lower().replace("_", "").replace("-", "")


@dataclass(slots=True, eq=False)
class Taken:
    """A place of the rows: what is below it, and whether a text is taken from it.

    Attributes:
        whole: the value here is taken as a text.
        texts: a text is taken from here or from inside.
        known: keys here that the mapping reads for any purpose but conditions.
        deep: keys with texts further inside.
        each, each_value: what is below every element of a list, every value of an object.
        has_places: some elements of a list are taken alone.
        plain: the keys of elements of which nothing further inside is taken; None: it may be.
    """

    below: dict[_Step, "Taken"] = field(default_factory=dict)
    whole: bool = False
    texts: bool = False
    known: frozenset[str] = frozenset()
    deep: tuple[tuple[str, "Taken"], ...] = ()
    each: "Taken | None" = None
    each_value: "Taken | None" = None
    has_places: bool = False
    plain: frozenset[str] | None = None

    def at(self, key: str) -> "Taken | None":
        """What is taken of the value of a key."""
        return self.below.get(key) or self.each_value

    def element(self, place: int, size: int) -> "Taken | None":
        """What is taken of one of so many elements of a list."""
        if not self.has_places:
            return self.each
        alone = self.below.get(Index(place)) or self.below.get(Index(place - size))
        return alone or self.each

    def covers(self, one: Json) -> bool:
        """Whether an element of a list holds nothing but texts and names that are taken as such."""
        return one.__class__ is dict and self.plain is not None and one.keys() <= self.plain

    def add(self, steps: list[_Step], *, texts: bool) -> None:
        """Note a path from here."""
        self.texts = self.texts or texts
        if not steps:
            self.whole = self.whole or texts
            return
        self.below.setdefault(steps[0], Taken()).add(steps[1:], texts=texts)

    def settle(self) -> "Taken":
        """Note what is asked for of every row."""
        for below in self.below.values():
            below.settle()
        named = [(key, below) for key, below in self.below.items() if isinstance(key, str)]
        self.each, self.each_value = self.below.get(_EACH), self.below.get(_VALUES)
        self.has_places = any(isinstance(step, Index) for step in self.below)
        each = None if self.has_places else self.each
        self.plain = each.known if each and not (each.deep or each.each_value) else None
        self.known = frozenset(key for key, _ in named)
        self.deep = tuple((key, below) for key, below in named if below.below and below.texts)
        return self


def taken_places(mapping: Mapping, *, only: str = "") -> Taken:
    """The places that a mapping takes texts from, or only those of a part such as `/tools`."""
    root = Taken()
    for use in path_uses(mapping):
        texts = bool(_TEXTS.match(use.pointer)) and only in use.pointer
        walks = use.pointer.rsplit("/", 1)[-1] in ("each", "children", "tree")
        if use.of_row or walks or not (texts or (_KNOWN.match(use.pointer) and not only)):
            continue
        for steps in _whole_steps(use):
            root.add(steps, texts=texts)
    return root.settle()


def _whole_steps(use: PathUse) -> list[list[_Step]]:
    """The steps from the row on to what a path finds; of a tree those to its root."""
    starts: list[list[list[_Step]]] = [[[]]]
    for around in use.scope:
        paths = _around_paths(around)
        if isinstance(around, Tree):  # all of it may be taken
            return [_follow(starts[-1][0], path) for path in paths]
        if paths:
            starts.append([_follow(starts[-1][0], path) for path in paths])
    path, start = use.path, starts[-1]
    if isinstance(path, Lookup):
        steps = _follow(start[0], path.parts["lookup"])
        return [_follow(steps, path.parts["take"])]
    first = path.steps[:1]
    if len(start) > 1 and first and isinstance(first[0], Index) and first[0].place < len(start):
        return [_follow(start[first[0].place], path, skip=1)]
    return [_follow(start[0], path)]


def _around_paths(around: Around) -> tuple[Path, ...]:
    if isinstance(around, Tree):
        return (around.path,)
    return around.each if isinstance(around, Message) else around


def _follow(start: list[_Step], path: Path, *, skip: int = 0) -> list[_Step]:
    """The steps of a path behind others; `^` leads back to the object around."""
    steps = list(start)
    for step in path.steps[skip:]:
        if isinstance(step, Names):
            steps += step.names
        elif isinstance(step, Key):
            steps.append(step.name)
        elif step == _UP:
            while steps and not isinstance(steps.pop(), str):
                pass
        elif step != _KEY:
            steps.append(step)
    return steps
