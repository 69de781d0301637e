"""Count the steps that a backtracking search takes, in place of a clock, and find every pattern.

`re` tells no steps. `Steps` walks the parsed pattern as the engine of `re` does (greedy, lazy and
possessive repeats, look around, groups) and counts every character and every choice it tries.
Bounded repeats are cut at a few: however long they are, they are no growth.
"""

import ast
import importlib
import itertools
import pkgutil
import random
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

import ingot

Matcher = Callable[[int, Callable[[int], bool]], bool]
Node = tuple[Any, Any]
_CUT = 12  # the most that a bounded repeat repeats, where steps are counted
_USES = frozenset(["search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"])
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY)
_WIDE = [*"aZ10 \t\n-_.,:@%/\\'\"`()[]{}<>|#*=+&?;!~^$\x00", "é", "漢", "：", "。"]
_SAMPLES = {
    op.CATEGORY_DIGIT: ["1"],
    op.CATEGORY_SPACE: [" ", "\n"],
    op.CATEGORY_WORD: ["a", "1", "_"],
    op.CATEGORY_NOT_SPACE: ["a", "-"],
    op.CATEGORY_NOT_DIGIT: ["a"],
    op.CATEGORY_NOT_WORD: ["-", " "],
}


class Pattern(NamedTuple):
    """One pattern of the product: where it stands and how it is applied."""

    place: str
    compiled: re.Pattern[Any]
    uses: frozenset[str]


class TooManyStepsError(Exception):
    """More steps than the measure allows."""


def product_patterns() -> list[Pattern]:
    """Return the patterns of all modules: compiled ones, and literals given to functions of re."""
    found: dict[tuple[Any, int], Pattern] = {}
    for module in _modules():
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        for place, compiled, uses in [*_compiled(module, tree), *_literals(module, tree)]:
            key = (compiled.pattern, compiled.flags)
            old = found.get(key)
            found[key] = Pattern(old.place if old else place, compiled, uses | (old or _NONE).uses)
    return list(found.values())


_NONE = Pattern("", re.compile(""), frozenset())


def _modules() -> Iterator[ModuleType]:
    for one in pkgutil.walk_packages(ingot.__path__, "ingot."):
        if not one.name.endswith("__main__"):
            try:
                yield importlib.import_module(one.name)
            except ImportError:  # an extra that is not installed
                continue


def _compiled(module: ModuleType, tree: ast.Module) -> Iterator[Pattern]:
    uses: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses.setdefault(node.value.id, set()).add(node.attr)
    for name, value in vars(module).items():
        for one in _held(value, 3):
            yield Pattern(f"{module.__name__}.{name}", one, frozenset(uses.get(name, ())) & _USES)


def _held(value: Any, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict | list | tuple | set | frozenset):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        for part in parts:
            yield from _held(part, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for field in value.__dataclass_fields__:
            yield from _held(getattr(value, field, None), depth - 1)


def _literals(module: ModuleType, tree: ast.Module) -> Iterator[Pattern]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        given = node.args[0]
        if (
            isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in _USES
            and isinstance(given, ast.Constant)
        ):
            place = f"{module.__name__} line {node.lineno}"
            yield Pattern(place, re.compile(given.value), frozenset({node.func.attr}))


def parsed(pattern: re.Pattern[Any]) -> list[Node]:
    """Return the pattern as `re` parses it, bounded repeats cut."""
    given = pattern.pattern
    text = given if isinstance(given, str) else given.decode("latin-1")
    return _cut(parser.parse(text, pattern.flags | (re.ASCII if text is not given else 0)))


def _cut(tree: Iterable[Node]) -> list[Node]:
    return [_cut_node(kind, value) for kind, value in tree]


def _cut_node(kind: Any, value: Any) -> Node:
    if kind in _REPEATS:
        least, most, body = value
        most = most if most is op.MAXREPEAT else min(most, _CUT)
        return kind, (min(least, _CUT), most, _cut(body))
    if kind is op.SUBPATTERN:
        return kind, (*value[:3], _cut(value[3]))
    if kind is op.BRANCH:
        return kind, (value[0], [_cut(one) for one in value[1]])
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return kind, (value[0], _cut(value[1]))
    return kind, _cut(value) if kind is op.ATOMIC_GROUP else value


def inner_trees(kind: Any, value: Any) -> list[list[Node]]:
    """Return what stands within a node."""
    if kind in _REPEATS:
        return [value[2]]
    if kind is op.SUBPATTERN:
        return [value[3]]
    if kind is op.BRANCH:
        return list(value[1])
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return [value[1]]
    return [value] if kind is op.ATOMIC_GROUP else []


def may_grow(tree: list[Node]) -> bool:
    """Whether something in the pattern repeats without a bound."""
    return any(
        (kind in _REPEATS and value[1] is op.MAXREPEAT)
        or any(map(may_grow, inner_trees(kind, value)))
        for kind, value in tree
    )


class Steps:
    """Counts the steps of one pattern on texts."""

    def __init__(self, tree: list[Node], flags: int, most: int) -> None:
        """Build the matcher; past `most` steps it gives up."""
        self._flags, self._most = flags, most
        self._groups: dict[int, tuple[int, int]] = {}
        self._text = ""
        self._count = 0
        self._matcher = self._sequence(tree)

    def count(self, text: str, uses: frozenset[str]) -> int:
        """Return the steps of applying the pattern as it is used."""
        self._text, self._count, at = text, 0, 0
        if not uses - {"match", "fullmatch"} and uses:
            end = len(text) if "fullmatch" in uses else None
            self._matcher(0, lambda i: end is None or i == end)
            return self._count
        while at <= len(text):
            self._groups.clear()
            ends: list[int] = []
            found = self._matcher(at, lambda i, ends=ends: ends.append(i) is None)  # type: ignore[misc]
            if found and uses == {"search"}:
                break
            at = max(at + 1, ends[-1]) if found else at + 1
        return self._count

    def _step(self, steps: int = 1) -> None:
        self._count += steps
        if self._count > self._most:
            raise TooManyStepsError

    def _sequence(self, tree: list[Node]) -> Matcher:
        parts = [self._node(kind, value) for kind, value in tree]

        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            after = goes_on
            for part in reversed(parts[1:]):
                after = lambda i, part=part, after=after: part(i, after)  # type: ignore[misc] # noqa: E731
            return parts[0](at, after) if parts else goes_on(at)

        return run

    def _node(self, kind: Any, value: Any) -> Matcher:
        if kind in _SINGLE:
            return self._single(kind, value)
        if kind in _REPEATS:
            return self._repeat(kind, *value)
        if kind is op.SUBPATTERN:
            return self._group(value[0], self._sequence(value[3]))
        if kind is op.BRANCH:
            return self._branch([self._sequence(one) for one in value[1]])
        if kind is op.ATOMIC_GROUP:
            return self._atomic(self._sequence(value))
        if kind in (op.ASSERT, op.ASSERT_NOT):
            return self._look(kind is op.ASSERT, value[0], self._sequence(value[1]), value[1])
        if kind is op.AT:
            return self._place(value)
        assert kind is op.GROUPREF, kind
        return self._again(value)

    def _single(self, kind: Any, value: Any) -> Matcher:
        fits = character_test(kind, value, self._flags)

        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            self._step()
            return at < len(self._text) and fits(self._text[at]) and goes_on(at + 1)

        return run

    def _repeat(self, kind: Any, least: int, most: Any, body: list[Node]) -> Matcher:
        most = sys.maxsize if most is op.MAXREPEAT else most
        if len(body) == 1 and body[0][0] in _SINGLE:
            return self._repeat_single(kind, least, most, body[0])
        inner = self._sequence(body)

        def turn(done: int, at: int, goes_on: Callable[[int], bool]) -> bool:
            self._step()

            def once_more() -> bool:
                if done >= most:
                    return False
                return inner(at, lambda i: (i > at or done < least) and turn(done + 1, i, goes_on))

            if kind is op.MIN_REPEAT:
                return (done >= least and goes_on(at)) or once_more()
            return once_more() or (done >= least and goes_on(at))

        whole: Matcher = lambda at, goes_on: turn(0, at, goes_on)  # noqa: E731
        return self._atomic(whole) if kind is op.POSSESSIVE_REPEAT else whole

    def _repeat_single(self, kind: Any, least: int, most: int, one: Node) -> Matcher:
        fits = character_test(*one, self._flags)

        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            text, end = self._text, at
            if kind is op.MIN_REPEAT:
                while True:
                    self._step()
                    if end - at >= least and goes_on(end):
                        return True
                    if end - at >= most or end >= len(text) or not fits(text[end]):
                        return False
                    end += 1
            while end < len(text) and end - at < most and fits(text[end]):
                end += 1
            self._step(end - at + 1)
            last = end if kind is op.POSSESSIVE_REPEAT else at + least
            while end >= max(last, at + least):
                self._step()
                if goes_on(end):
                    return True
                end -= 1
            return False

        return run

    def _group(self, number: int | None, inner: Matcher) -> Matcher:
        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            def leave(end: int) -> bool:
                if number is not None:
                    self._groups[number] = (at, end)
                return goes_on(end)

            return inner(at, leave)

        return run

    def _branch(self, ways: list[Matcher]) -> Matcher:
        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            for way in ways:
                self._step()
                if way(at, goes_on):
                    return True
            return False

        return run

    def _atomic(self, inner: Matcher) -> Matcher:
        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            ends: list[int] = []
            return inner(at, lambda i: ends.append(i) is None) and goes_on(ends[-1])

        return run

    def _look(self, wanted: bool, way: int, inner: Matcher, tree: list[Node]) -> Matcher:
        back = width(tree) if way < 0 else 0

        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            self._step()
            found = at >= back and inner(at - back, lambda i: True)
            return found == wanted and goes_on(at)

        return run

    def _place(self, where: Any) -> Matcher:
        lines = bool(self._flags & re.MULTILINE)

        def holds(at: int) -> bool:
            text = self._text
            if where is op.AT_BEGINNING:
                return at == 0 or (lines and text[at - 1] == "\n")
            if where is op.AT_BEGINNING_STRING:
                return at == 0
            if where is op.AT_END_STRING:
                return at == len(text)
            if where is op.AT_END:
                return at == len(text) or (text[at] == "\n" and (lines or at == len(text) - 1))
            sides = [0 <= i < len(text) and _is_word(text[i]) for i in (at - 1, at)]
            return (sides[0] != sides[1]) == (where is op.AT_BOUNDARY)

        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            self._step()
            return holds(at) and goes_on(at)

        return run

    def _again(self, number: int) -> Matcher:
        def run(at: int, goes_on: Callable[[int], bool]) -> bool:
            start, end = self._groups.get(number, (0, 0))
            said = self._text[start:end]
            self._step(len(said) + 1)
            return self._text.startswith(said, at) and goes_on(at + len(said))

        return run


def width(tree: list[Node]) -> int:
    """Return the width of what stands in a look behind."""
    sizes = {op.AT: 0, op.ASSERT: 0, op.ASSERT_NOT: 0}
    total = 0
    for kind, value in tree:
        if kind in _REPEATS:
            total += value[0] * width(value[2])
        elif inner := inner_trees(kind, value):
            total += 0 if kind in sizes else width(inner[0])
        else:
            total += sizes.get(kind, 1)
    return total


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    op.CATEGORY_DIGIT: lambda char: unicodedata.category(char) == "Nd",
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_WORD: _is_word,
    op.CATEGORY_NOT_DIGIT: lambda char: unicodedata.category(char) != "Nd",
    op.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    op.CATEGORY_NOT_WORD: lambda char: not _is_word(char),
}


def character_test(kind: Any, value: Any, flags: int) -> Callable[[str], bool]:
    """Return whether a character is what a node of one character takes."""
    if kind is op.ANY:
        return lambda char: bool(flags & re.DOTALL) or char != "\n"
    items = [(op.LITERAL, value)] if kind is not op.IN else value
    negated = kind is op.NOT_LITERAL or items[0][0] is op.NEGATE

    def holds(char: str) -> bool:
        for name, what in items:
            if (
                (name is op.LITERAL and ord(char) == what)
                or (name is op.RANGE and what[0] <= ord(char) <= what[1])
                or (name is op.CATEGORY and _CATEGORIES[what](char))
            ):
                return True
        return False

    def fits(char: str) -> bool:
        sides = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
        return any(holds(one) for one in sides if len(one) == 1) != negated

    known: dict[str, bool] = {}

    def remember(char: str) -> bool:
        if char not in known:
            known[char] = fits(char)
        return known[char]

    return remember


def slow_texts(tree: list[Node], size: int, seed: str, samples: int) -> Iterator[tuple[str, str]]:
    """Yield texts of two lengths, `size` and twice that, on which a search may take long.

    Each has a beginning, what is repeated, and an end that nearly fits: characters of the pattern,
    texts that it would find, and pieces of these.
    """
    chosen = random.Random(seed)
    letters = list(dict.fromkeys(_letters(tree)))
    ends = ["", "\x00", "\n", "a"]
    shapes = [("", letter, end) for letter in [*letters, *" \na1\\"] for end in ("", "\x00")]
    chosen.shuffle(shapes)
    shapes = shapes[: 2 * samples]
    for _ in range(samples):
        text = _sample(tree, chosen, {}) or "a"
        start, stop = sorted((chosen.randrange(len(text) + 1), chosen.randrange(len(text) + 1)))
        some = chosen.choice(letters or ["a"])
        shapes += [
            ("", text, ""),
            ("", text[:stop] or text, chosen.choice(ends)),
            (text[:start], text[start:stop] or some, chosen.choice([text[stop:], *ends])),
            (text[:start], some, chosen.choice([text[start:], *ends])),
            ("", some * chosen.choice([1, 1, 9]) + chosen.choice([*letters, " "]), ""),
        ]
    for first, again, last in dict.fromkeys(shapes):
        times = max(1, size // len(again))
        yield first + again * times + last, first + again * 2 * times + last


def _letters(tree: list[Node]) -> Iterator[str]:
    for kind, value in tree:
        if kind in _SINGLE:
            yield from itertools.islice(_fitting(kind, value), 4)
        for inner in inner_trees(kind, value):
            yield from _letters(inner)


def _fitting(kind: Any, value: Any) -> Iterator[str]:
    if kind is op.LITERAL:
        yield chr(value)
    elif kind is op.IN and value[0][0] is not op.NEGATE:
        for name, what in value:
            if name is op.CATEGORY:
                yield from _SAMPLES[what]
            else:
                yield from map(chr, [what] if name is op.LITERAL else dict.fromkeys(what))
    else:
        yield from filter(character_test(kind, value, 0), _WIDE)


def _sample(tree: list[Node], chosen: random.Random, groups: dict[int, str]) -> str:
    return "".join(_sample_node(kind, value, chosen, groups) for kind, value in tree)


def _sample_node(kind: Any, value: Any, chosen: random.Random, groups: dict[int, str]) -> str:
    if kind in _SINGLE:
        return chosen.choice(list(_fitting(kind, value)) or ["a"])
    if kind in _REPEATS:
        most = value[0] + 3 if value[1] is op.MAXREPEAT else min(value[1], value[0] + 3)
        times = chosen.randint(value[0], most)
        return "".join(_sample(value[2], chosen, groups) for _ in range(times))
    if kind is op.BRANCH:
        return _sample(chosen.choice(value[1]), chosen, groups)
    if kind is op.GROUPREF:
        return groups.get(value, "")
    if kind in (op.ASSERT, op.ASSERT_NOT) and (kind is op.ASSERT_NOT or chosen.random() < 0.5):
        return ""
    text = "".join(_sample(inner, chosen, groups) for inner in inner_trees(kind, value))
    if kind is op.SUBPATTERN and value[0] is not None:
        groups[value[0]] = text
    return text
