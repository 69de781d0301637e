"""What a change of `where` means: which conditions admit more, and which admit less."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from ingot.agent.meaning.exact import exactly
from ingot.agent.meaning.rules import Change, change
from ingot.agent.meaning.words import compared, condition_text, short
from ingot.converters.rows import Json

Condition = dict[str, Json]

# Old conditions of one path that a new one is held against; beyond, it counts as one that tightens.
_MOST_HELD = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A condition and the JSON Pointer to it."""

    condition: Condition
    pointer: str


def where_changes(old: list[Placed], new: list[Placed], *, target: str) -> list[Change]:
    """The changes of the conditions of one layout, old ones paired with new ones of their path.

    A condition that admits more is `where_widened`, whatever stands around it.
    """
    before, after = _once(old), _once(new)
    if list(before) != list(after) and before.keys() == after.keys():
        words = (_all(old), _all(new))
        return [change("where_order", target, *words, new[0].pointer)]
    gone = [one for key, one in before.items() if key not in after]
    come = [one for key, one in after.items() if key not in before]
    return list(_paired(gone, come, list(before.values()), target))


def _once(conditions: list[Placed]) -> dict[str, Placed]:
    """The conditions by what they say, in order, each where it stands first."""
    once: dict[str, Placed] = {}
    for one in conditions:
        once.setdefault(exactly(one.condition), one)
    return once


def _all(conditions: list[Placed]) -> str:
    return short(", ".join(condition_text(one.condition) for one in conditions))


def _paired(
    gone: list[Placed], come: list[Placed], before: list[Placed], target: str
) -> Iterator[Change]:
    pairs = [*_pairs(gone, come, _path_and_operator), *_pairs(gone, come, _path)]
    for one, other in pairs:
        words = compared(one.condition, other.condition, condition_text)
        yield change(_rule(_spelt(one), _spelt(other)), target, *words, other.pointer)
    for one in gone:
        words_gone = short(condition_text(one.condition))
        yield change("where_widened", target, words_gone, None, one.pointer)
    known = _by_path(before)
    for other in come:
        spelt = _spelt(other)
        held = any(_implies(one, spelt) for one in known[other.condition["path"]])
        rule = "where_widened" if held else "where_tightened"
        yield change(rule, target, None, short(condition_text(other.condition)), other.pointer)


def _by_path(conditions: Iterable[Placed]) -> dict[str, list["_Spelt"]]:
    """As many conditions of every path as others are held against."""
    found: dict[str, list[_Spelt]] = defaultdict(list)
    for one in conditions:
        if len(known := found[one.condition["path"]]) < _MOST_HELD:
            known.append(_spelt(one))
    return found


def _pairs(
    gone: list[Placed], come: list[Placed], alike: Callable[[Condition], Hashable]
) -> list[tuple[Placed, Placed]]:
    """Pairs of conditions that are alike, taken out of both lists."""
    left: dict[Hashable, deque[Placed]] = defaultdict(deque)
    for other in come:
        left[alike(other.condition)].append(other)
    found = [(one, left[key].popleft()) for one in gone if left[key := alike(one.condition)]]
    taken = {id(one) for pair in found for one in pair}
    for side in (gone, come):
        side[:] = [one for one in side if id(one) not in taken]
    return found


def _path(one: Condition) -> Hashable:
    return str(one["path"])


def _path_and_operator(one: Condition) -> Hashable:
    return frozenset(one), one["path"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spelt:
    """A condition with its values as they are compared."""

    condition: Condition
    values: frozenset[str]


def _spelt(one: Placed) -> _Spelt:
    condition = one.condition
    values = condition.get("in") or condition.get("not_in") or ()
    return _Spelt(condition=condition, values=frozenset(map(exactly, values)))


def _rule(old: _Spelt, new: _Spelt) -> str:
    if _implies(old, new):
        return "where_widened"
    return "where_tightened" if _implies(new, old) else "where_changed"


def _implies(one: _Spelt, other: _Spelt) -> bool:
    """Whether every row that passes one condition passes the other, for certain."""
    was, now = one.condition, other.condition
    if was["path"] != now["path"]:
        return False
    if "min_chars" in was and "min_chars" in now:
        return bool(now["min_chars"] <= was["min_chars"])
    if "max_chars" in was and "max_chars" in now:
        return bool(now["max_chars"] >= was["max_chars"])
    if "in" in was:
        if "in" in now:
            return one.values <= other.values
        return "not_in" in now and not one.values & other.values
    return "not_in" in was and "not_in" in now and other.values <= one.values
