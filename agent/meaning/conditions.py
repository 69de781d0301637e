"""What a change of `where` means: which conditions admit more, and which admit less."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.agent.meaning.exact import exactly
from ingot.agent.meaning.rules import Change, change
from ingot.agent.meaning.words import compared, condition_text, short
from ingot.converters.rows import Json

Condition = dict[str, Json]


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
    pairs = [*_pairs(gone, come, _same_operator), *_pairs(gone, come, _same_path)]
    for one, other in pairs:
        words = compared(one.condition, other.condition, condition_text)
        yield change(_rule(one.condition, other.condition), target, *words, other.pointer)
    for one in gone:
        words_gone = short(condition_text(one.condition))
        yield change("where_widened", target, words_gone, None, one.pointer)
    for other in come:
        held = any(_implies(one.condition, other.condition) for one in before)
        rule = "where_widened" if held else "where_tightened"
        yield change(rule, target, None, short(condition_text(other.condition)), other.pointer)


def _pairs(
    gone: list[Placed], come: list[Placed], alike: Callable[[Condition, Condition], bool]
) -> list[tuple[Placed, Placed]]:
    """Pairs of conditions that are alike, taken out of both lists."""
    pairs = []
    for one in list(gone):
        other = next((o for o in come if alike(one.condition, o.condition)), None)
        if other is not None:
            pairs.append((one, other))
            gone.remove(one)
            come.remove(other)
    return pairs


def _same_path(one: Condition, other: Condition) -> bool:
    return bool(one["path"] == other["path"])


def _same_operator(one: Condition, other: Condition) -> bool:
    return one.keys() == other.keys() and _same_path(one, other)


def _rule(old: Condition, new: Condition) -> str:
    if _implies(old, new):
        return "where_widened"
    return "where_tightened" if _implies(new, old) else "where_changed"


def _implies(one: Condition, other: Condition) -> bool:
    """Whether every row that passes one condition passes the other, for certain."""
    if one["path"] != other["path"]:
        return False
    if "min_chars" in one and "min_chars" in other:
        return bool(other["min_chars"] <= one["min_chars"])
    if "max_chars" in one and "max_chars" in other:
        return bool(other["max_chars"] >= one["max_chars"])
    if "in" in one:
        values = _spelt(one["in"])
        return values <= _spelt(other["in"]) if "in" in other else _excludes(other, values)
    return (
        "not_in" in one and "not_in" in other and _spelt(other["not_in"]) <= _spelt(one["not_in"])
    )


def _excludes(other: Condition, values: set[str]) -> bool:
    return "not_in" in other and not values & _spelt(other["not_in"])


def _spelt(values: list[Json]) -> set[str]:
    return set(map(exactly, values))
