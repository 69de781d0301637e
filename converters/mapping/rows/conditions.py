"""Conditions of `where`, on a record or on an element of a message's `each`.

A condition looks at the first hit of its path; one that is missing counts as null.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.language import Condition
from ingot.converters.mapping.rows.values import PathStats, json_text, path_hits
from ingot.converters.paths import Node
from ingot.converters.rows import Json, RowError

Test = Callable[[Node], bool]


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """A condition: the path it looks at, its first hit there, and whether that is wanted."""

    name: str
    first: Callable[[Node], Json]
    holds: Callable[[Json], bool]

    def require(self, node: Node) -> None:
        """Raise `filtered` where the condition does not hold."""
        found = self.first(node)
        if not self.holds(found):
            raise RowError("filtered", self.name, found_text(found))


def same_json(left: Json, right: Json) -> bool:
    """Return whether two values are equal as JSON: true is not 1, 1 is 1.0."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def compile_condition(condition: Condition, stats: PathStats) -> CompiledCondition:
    """Return a condition as functions of a node."""
    hits = path_hits(condition.path, stats)
    name, limit = condition.path.text, condition.limit
    known = {(isinstance(value, bool), value) for value in condition.values}

    def first(node: Node) -> Json:
        found = hits(node)
        return found[0] if found else None

    def among(found: Json) -> bool:
        return not isinstance(found, list | dict) and (isinstance(found, bool), found) in known

    def length(found: Json) -> int:
        return 0 if found is None else len(json_text(found, name))

    holds: dict[str, Callable[[Json], bool]] = {
        "in": among,
        "not_in": lambda found: not among(found),
        "min_chars": lambda found: length(found) >= limit,
        "max_chars": lambda found: length(found) <= limit,
    }
    return CompiledCondition(name, first, holds[condition.op])


def compile_test(conditions: Sequence[Condition], stats: PathStats) -> Test | None:
    """Return conditions as one test of a node; None if there is no condition."""
    if not conditions:
        return None
    compiled = [compile_condition(one, stats) for one in conditions]
    return lambda node: all(one.holds(one.first(node)) for one in compiled)
