"""The path language: where in a row a value lies.

A path is RFC 9535 JSONPath without the leading `$.` (which may be written), restricted to names,
indices and wildcards, plus four whole-segment marks: `$` (the value itself), `.*` (the values of an
object), `^` (the nearest object around) and `~` (the key or list index of the current value). The
path `@file` is the name of the row's file, unless the current object has such a key.
docs/mapping.md is the reference.

Paths are compiled once and walked many times. Missing and null are told apart: a step that does not
exist gives no hit, a null gives a hit that is None.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ingot.converters.json_yaml import found_text
from ingot.converters.rows import Json, RowError, count_looks


class PathSyntaxError(ValueError):
    """A text that is no path; `nearest` is the closest legal form or None."""

    def __init__(self, text: str, problem: str, nearest: str | None) -> None:
        super().__init__(text, problem, nearest)
        self.text = text
        self.problem = problem
        self.nearest = nearest


class Node:
    """A value in its place: its key and what is around it (`parent` is None for the row)."""

    __slots__ = ("key", "parent", "value")

    def __init__(
        self, value: Json, key: str | int | None = None, parent: "Node | None" = None
    ) -> None:
        self.value = value
        self.key = key
        self.parent = parent


class RowNode(Node):
    """A row in its file, whose relative name without extensions is `file`."""

    __slots__ = ("file",)

    def __init__(self, value: Json, key: str | int | None, file: str) -> None:
        self.value = value
        self.key = key
        self.parent = None
        self.file = file


# Unlike tuples these are equal only to their own kind: the key `['^']` is not the mark `^`.
@dataclass(frozen=True, slots=True)
class Names:
    """A run of plain names; at each object the longest run that is a key is taken first."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """A quoted name: exactly this key."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """An element of a list, from the end if negative."""

    place: int


@dataclass(frozen=True, slots=True)
class Mark:
    """`[*]`, `.*`, `^` or `~`."""

    mark: str


Step = Names | Key | Index | Mark

_NAME = re.compile(r"[^.\[\]\s'\"](?:[^.\[\]]*[^.\[\]\s])?")
_BRACKET = re.compile(r"\[(?:(\*)|(-?[0-9]{1,16})|'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_QUOTED = {code: f"\\u{code:04x}" for code in range(0x20)} | {ord("\\"): "\\\\", ord("'"): "\\'"}
MARKS = ("*", "^", "~")
FILE = "@file"  # as a whole path
# No path that a person can read has more steps; every run of names in one is joined beforehand.
MAX_STEPS = 64
# A longer text is no slip of a legal path, and guesses at it cost more than they are worth.
_GUESSED_LENGTH = 300


def _unescape(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    plain = _ESCAPE.sub(unescape, text)
    # Two escapes of a surrogate pair are one character, as in JSON.
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise PathSyntaxError(
            text, "it holds half of a surrogate pair, which is not valid Unicode", None
        ) from None


def quote_name(name: str) -> str:
    """Return one key as a path segment, quoted in brackets unless it is unambiguous."""
    plain = _NAME.fullmatch(name) and name not in (*MARKS, "$", FILE) and name.isprintable()
    if plain:
        return name
    return f"['{name.translate(_QUOTED)}']"


def join_path(*segments: str | int) -> str:
    """Return a path from keys (text), list indices (int) and the marks spelt `[*]` and `.*`."""
    spelt = {"[*]": "[*]", ".*": "*"}
    parts = [f"[{s}]" if isinstance(s, int) else spelt.get(s) or quote_name(s) for s in segments]
    return _join_parts(parts) or "$"


def _join_parts(parts: Iterable[str]) -> str:
    text = ""
    for part in parts:
        text += part if not text or part.startswith("[") else f".{part}"
    return text


def _nearest_legal(text: str) -> str | None:
    """The closest legal spelling: slices and filters become wildcards, bracket names are quoted."""
    if len(text) > _GUESSED_LENGTH:
        return None
    guess = re.sub(r"\.{2,}", ".", text.strip()).strip(".")
    guess = re.sub(r"\.\[", "[", guess)
    guess = re.sub(r"\[[^\[\]'\":?@]*+[:?@][^\[\]]*+\]|\[\]", "[*]", guess)
    guess = re.sub(r"\[([^\[\]\d*'\"-][^\[\]'\"]*+)\]", r"['\1']", guess)
    try:
        _parse(guess)
    except PathSyntaxError:
        return None
    return guess


def _tokens(text: str) -> Iterable[Step]:
    position = 0
    while position < len(text):
        bracket = _BRACKET.match(text, position)
        if bracket:
            position = bracket.end()
            star, number, single, double = bracket.groups()
            if star:
                yield Mark("[*]")
            elif number:
                yield Index(int(number))
            else:
                yield Key(_unescape(single if single is not None else double))
            continue
        if position:
            if text[position] != ".":
                raise PathSyntaxError(
                    text, f"'.' or '[' expected at character {position + 1}", None
                )
            position += 1
        name = _NAME.match(text, position)
        if not name:
            raise PathSyntaxError(text, f"a name is expected at character {position + 1}", None)
        position = name.end()
        yield Mark(name.group()) if name.group() in MARKS else Names((name.group(),))


def _parse(text: str) -> tuple[Step, ...]:
    if text == "$":
        return ()
    body = re.sub(r"^\$(?:\.|(?=\[))", "", text)
    if not body:
        raise PathSyntaxError(text, "the path is empty", None)
    steps: list[Step] = []
    for count, step in enumerate(_tokens(body), 1):
        if isinstance(step, Names) and steps and isinstance(steps[-1], Names):
            steps[-1] = Names(steps[-1].names + step.names)
        else:
            steps.append(step)
        if count > MAX_STEPS:
            raise PathSyntaxError(text, f"more than {MAX_STEPS} steps", None)
    return tuple(steps)


Walk = Callable[[list[Node]], list[Node]]


def _take_names(names: tuple[str, ...]) -> Callable[[Json], list[tuple[str, Json]] | None]:
    """The keys that a run of names takes from a value on, and what stands at each."""
    joined = {
        (i, j): ".".join(names[i:j])
        for i in range(len(names))
        for j in range(i + 1, len(names) + 1)
    }
    count = len(names)

    def take(value: Json) -> list[tuple[str, Json]] | None:
        taken = []
        position = 0
        while position < count:
            if value.__class__ is not dict:
                return None
            for end in range(count, position, -1):
                name = joined[position, end]
                if name in value:
                    value = value[name]
                    taken.append((name, value))
                    position = end
                    break
            else:
                return None
        return taken

    return take


def _walk_names(names: tuple[str, ...]) -> Walk:
    take = _take_names(names)

    def walk(nodes: list[Node]) -> list[Node]:
        hits = []
        for node in nodes:
            if (taken := take(node.value)) is not None:
                for name, value in taken:
                    node = Node(value, name, node)
                hits.append(node)
        return hits

    return walk


def _walk_inside(text: str, kind: type) -> Walk:
    """All elements of lists, or all values of objects."""
    items: Callable[[Any], Iterable[tuple[Any, Json]]] = enumerate if kind is list else dict.items
    reason = "not_a_list" if kind is list else "not_an_object"

    def walk(nodes: list[Node]) -> list[Node]:
        hits: list[Node] = []
        for node in nodes:
            value = node.value
            if value.__class__ is kind:
                found_nodes = [Node(v, k, node) for k, v in items(value)]
                count_looks(len(found_nodes))
                hits += found_nodes
            elif value is not None:
                raise RowError(reason, text, found_text(value))
        return hits

    return walk


def _parent_node(node: Node) -> Node | None:
    parent = node.parent
    while parent is not None and parent.value.__class__ is not dict:
        parent = parent.parent
    return parent


def _walk_file(nodes: list[Node]) -> list[Node]:
    """The values of a key of this name, or the names of the files around."""
    hits = []
    for node in nodes:
        if node.value.__class__ is dict and FILE in node.value:
            hits.append(Node(node.value[FILE], FILE, node))
            continue
        row = node
        while row.parent is not None:
            row = row.parent
        if isinstance(row, RowNode):
            hits.append(Node(row.file, FILE, node))
    return hits


def _walk_step(step: Step, text: str) -> Walk:
    if isinstance(step, Names):
        return _walk_names(step.names)
    if isinstance(step, Key | Index):
        look = _look(step)
        return lambda nodes: [
            Node(hit, step.name if isinstance(step, Key) else step.place % len(n.value), n)
            for n in nodes
            if (hit := look(n.value)) is not MISSING
        ]
    if step.mark == "^":
        return lambda nodes: [up for node in nodes if (up := _parent_node(node)) is not None]
    if step.mark == "~":
        return lambda nodes: [Node(n.key, None, n) for n in nodes if n.key is not None]
    return _walk_inside(text, list if step.mark == "[*]" else dict)


MISSING: Final = object()  # what a place holds that does not exist
Single = Callable[[Node], Json]  # MISSING, or the value


def _compile_single(steps: tuple[Step, ...]) -> Single | None:
    """The value of steps that have one hit at most; None if they may have several."""
    ups = next((n for n, step in enumerate(steps) if step != Mark("^")), len(steps))
    looks = [_look(step) for step in steps[ups:] if not isinstance(step, Mark)]
    if len(looks) < len(steps) - ups:
        return None
    if not ups and len(looks) == 1:  # the usual case
        look = looks[0]
        return lambda node: look(node.value)

    def single(node: Node) -> Json:
        for _ in range(ups):
            above = _parent_node(node)
            if above is None:
                return MISSING
            node = above
        value = node.value
        for look in looks:  # none of them finds anything in what is missing
            value = look(value)
        return value

    return single


def _look(step: Names | Key | Index) -> Callable[[Json], Json]:
    """What a step leads to from a value."""
    if isinstance(step, Index):
        place = step.place
        low = max(-place, place + 1)  # so many elements there must be
        return lambda value: (
            value[place] if value.__class__ is list and len(value) >= low else MISSING
        )
    if isinstance(step, Names) and len(step.names) > 1:
        take = _take_names(step.names)
        return lambda value: MISSING if (taken := take(value)) is None else taken[-1][1]
    name = step.names[0] if isinstance(step, Names) else step.name
    return lambda value: value.get(name, MISSING) if value.__class__ is dict else MISSING


class Path:
    """A compiled path. Equal by text; pickles as its text."""

    __slots__ = ("_list", "_walks", "single", "steps", "text")

    def __init__(self, text: str) -> None:
        try:
            self.steps = _parse(text)
        except PathSyntaxError as error:
            raise PathSyntaxError(text, error.problem, _nearest_legal(text)) from None
        self.text = text
        own = (_walk_file,) if self.is_file else None
        self._walks = own or tuple(_walk_step(step, text) for step in self.steps)
        # The value at a node or MISSING, where the path leads to one place at most.
        self.single: Single | None = None if own else _compile_single(self.steps)
        whole = self.steps[-1:] == (Mark("[*]"),)
        self._list = _compile_single(self.steps[:-1]) if whole else None

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Callable[..., "Path"], tuple[object, ...]]:
        return compile_path, (self.text,)

    def nodes(self, start: Node) -> list[Node]:
        """Return every hit in document order, in its place."""
        hits = [start]
        for walk in self._walks:
            hits = walk(hits)
            if not hits:
                break
        return hits

    def find(self, start: Node) -> list[Json]:
        """Return the values of every hit; null is None, missing is the empty list."""
        if self.single is not None:
            value = self.single(start)
            return [] if value is MISSING else [value]
        if self._list is not None:
            value = self._list(start)
            if value.__class__ is list:
                count_looks(len(value))
                return list(value)
            if value is MISSING or value is None:
                return []
        return [node.value for node in self.nodes(start)]

    @property
    def is_file(self) -> bool:
        """Return whether the path is `@file`; quoted, it is a key like any other."""
        return self.steps == (Names((FILE,)),)

    @property
    def first_wildcard(self) -> int | None:
        """Return the position of the first `[*]` or `.*` among the steps."""
        wild = (isinstance(step, Mark) and step.mark in ("[*]", "*") for step in self.steps)
        return next((place for place, one in enumerate(wild) if one), None)


def _step_text(step: Step) -> str:
    if isinstance(step, Names):
        return ".".join(step.names)
    if isinstance(step, Key):
        return f"['{step.name.translate(_QUOTED)}']"
    return f"[{step.place}]" if isinstance(step, Index) else step.mark


def steps_text(steps: tuple[Step, ...]) -> str:
    """Return the spelling of a sequence of steps (`$` for none)."""
    text = _join_parts(map(_step_text, steps))
    # A first name that is `$` would be taken for the start of the path.
    named = steps and isinstance(steps[0], Names) and steps[0].names[0] == "$"
    return f"$.{text}" if named else text or "$"


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Compile a path."""
    return Path(text)
