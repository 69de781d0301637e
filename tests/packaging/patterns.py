"""Finds every pattern of the product and measures what it takes on texts that may be slow for it.

Run as a program: `python -m tests.packaging.patterns SIZE SAMPLES SEED [PATTERN ...]` prints a line
for every pattern of the product, or of those given, that takes the square of the length or more,
and names each before it tries it. The measure is the processor's time, not the clock's.
"""

import ast
import importlib
import itertools
import pkgutil
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

import ingot

Node = tuple[Any, Any]
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
# Patterns that are given short texts only, and how short these are.
SHORT = {
    "ingot.agent.judging.model_gates._HEADING": "a label of at most 60 characters",
    "ingot.agent.model.client._CIRCLE": "the last 2,000 characters of a reply",
    "ingot.agent.model.server_errors._BOUNDS": "the first `_MOST_WORDS` bytes of an error",
    "ingot.agent.proposing.cards._CARD_NAMES": "the name of a file",
    "ingot.agent.proposing.doubts.turn_doubts._SPEAKER_TURN": "the first 2,000 characters",
    "ingot.converters.sources.storage.listing._UNFINISHED": "the name of a file",
    "ingot.converters.sources.text_kinds._FILE": "a text of at most 300 characters",
    "ingot.converters.sources.text_kinds._EMAIL": "a text of at most 300 characters",
}
# Patterns that stand in a list or a table, and how they are applied; others are searched for.
APPLIED = {
    "ingot.agent.privacy.secrets._BY_LOOK": "fullmatch",
    "ingot.converters.sources.file_kinds.MARKUP": "match",
    "ingot.converters.sources.recognizers.aliccp._KINDS": "match",
    "ingot.converters.sources.text_kinds._TIME": "fullmatch",
}
LITTLE = 0.03  # seconds of a processor that are no reason to look closer
GROWTH = (
    8.0  # times the seconds where the text is four times as long: 4 is linear, 16 is the square
)
LONGEST = 5.0  # seconds of a processor for one text


class Pattern(NamedTuple):
    """One pattern of the product: where it stands and how it is applied."""

    place: str
    compiled: re.Pattern[Any]
    uses: frozenset[str]


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


def applied_patterns() -> Iterator[Pattern]:
    """Yield the patterns that long texts reach and that repeat something without a bound."""
    for one in product_patterns():
        if one.place not in SHORT and _may_grow(_parsed(one.compiled)):
            uses = frozenset([APPLIED[one.place]]) if one.place in APPLIED else one.uses
            yield one._replace(uses=uses)


def _parsed(pattern: re.Pattern[Any]) -> list[Node]:
    given = pattern.pattern
    text = given if isinstance(given, str) else given.decode("latin-1")
    tree: list[Node] = parser.parse(text, pattern.flags | (re.ASCII if text is not given else 0))
    return tree


def _inner_trees(kind: Any, value: Any) -> list[list[Node]]:
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


def _may_grow(tree: list[Node]) -> bool:
    return any(
        (kind in _REPEATS and value[1] is op.MAXREPEAT)
        or any(map(_may_grow, _inner_trees(kind, value)))
        for kind, value in tree
    )


def slow_texts(
    pattern: re.Pattern[Any], size: int, seed: str, samples: int
) -> Iterator[tuple[str, str]]:
    """Yield texts of two lengths, a quarter of `size` and `size`, on which a search may take long.

    Each has a beginning, what is repeated, and an end that nearly fits: characters of the pattern,
    texts that it would find, and pieces of these.
    """
    tree = _parsed(pattern)
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
        times = max(1, size // (4 * len(again)))
        yield first + again * times + last, first + again * 4 * times + last


def _letters(tree: list[Node]) -> Iterator[str]:
    for kind, value in tree:
        if kind in _SINGLE:
            yield from itertools.islice(_fitting(kind, value), 4)
        for inner in _inner_trees(kind, value):
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
    else:  # one of any, or of what is not listed: `re` itself tells which are
        yield from filter(_single(kind, value).match, _WIDE)


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
    text = "".join(_sample(inner, chosen, groups) for inner in _inner_trees(kind, value))
    if kind is op.SUBPATTERN and value[0] is not None:
        groups[value[0]] = text
    return text


def _single(kind: Any, value: Any) -> re.Pattern[str]:
    """Return a pattern of one character that is what a node takes."""
    if kind is op.ANY:
        return re.compile(".")
    if kind is op.NOT_LITERAL:
        return re.compile(f"[^{re.escape(chr(value))}]")
    spelled = {
        op.CATEGORY_DIGIT: r"\d",
        op.CATEGORY_SPACE: r"\s",
        op.CATEGORY_WORD: r"\w",
        op.CATEGORY_NOT_DIGIT: r"\D",
        op.CATEGORY_NOT_SPACE: r"\S",
        op.CATEGORY_NOT_WORD: r"\W",
    }
    parts = []
    for name, what in value:
        if name is op.CATEGORY:
            parts.append(spelled[what])
        elif name is op.RANGE:
            parts.append(f"{re.escape(chr(what[0]))}-{re.escape(chr(what[1]))}")
        elif name is op.LITERAL:
            parts.append(re.escape(chr(what)))
    return re.compile(f"[^{''.join(parts)}]")


class NoEndError(Exception):
    """A search that took all the time it may take."""


def seconds(one: Pattern, text: str) -> float:
    """Return the processor's seconds of applying a pattern as the product does."""
    given = text if isinstance(one.compiled.pattern, str) else text.encode()
    begun = time.process_time()
    if one.uses and not one.uses - {"match", "fullmatch", "search"}:
        for use in sorted(one.uses):
            getattr(one.compiled, use)(given)
    else:
        for _ in one.compiled.finditer(given):
            pass
    return time.process_time() - begun


def _least(one: Pattern, text: str) -> float:
    """Measure three times: whatever else runs makes a search slower, never quicker."""
    return min(seconds(one, text) for _ in range(3))


def slowest(one: Pattern, size: int, samples: int, seed: int) -> str:
    """Return on what a pattern takes the square of the length, or more; nothing if on no text."""
    for short, long in slow_texts(one.compiled, size, f"{one.place} {seed}", samples):
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            slow = seconds(one, long)
            if slow > LITTLE and (slow := _least(one, long)) > max(
                LITTLE, GROWTH * _least(one, short)
            ):
                return f"{slow:.3f} s on {short[:40]!r}...{short[-8:]!r}"
        except NoEndError:
            return f"no end on {short[:40]!r}...{short[-8:]!r}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def _give_up(*_: object) -> None:
    raise NoEndError


def main() -> None:
    """Print `? place` before each pattern is tried, and `! place: why` for one that is slow."""
    size, samples, seed = map(int, sys.argv[1:4])
    given = [Pattern(one, re.compile(one), frozenset({"finditer"})) for one in sys.argv[4:]]
    signal.signal(signal.SIGVTALRM, _give_up)
    for one in given or applied_patterns():
        sys.stdout.write(f"? {one.place}\n")
        sys.stdout.flush()
        if why := slowest(one, size, samples, seed):
            sys.stdout.write(f"! {one.place}: {why}\n")


if __name__ == "__main__":
    main()
