"""Lookups: a path that leads over a list elsewhere in the row, to the element with a given key.

A lookup stands where a path may stand, and acts as one: it has hits, and a text that messages name.
"""

from collections.abc import Callable

from ingot.converters.json_yaml import found_text
from ingot.converters.paths import Node, Path, compile_path, steps_text
from ingot.converters.rows import Json, RowError

PARTS = ("lookup", "key", "of", "take")

_Index = dict[tuple[bool, Json], list[Node]]


class Lookup(Path):
    """For each hit of `of` what `take` finds in the element of `lookup` whose `key` equals it.

    `lookup` and `of` start where the form stands, `key` and `take` at the element. No such element
    is missing; two of them are the error `ambiguous_lookup`.
    """

    __slots__ = ("_holder", "_known", "parts")

    def __init__(self, lookup: Path, key: Path, of: Path, take: Path) -> None:
        self.parts = dict(zip(PARTS, (lookup, key, of, take), strict=True))
        self.text = f"{lookup.text}[{key.text} = {of.text}].{take.text}"
        self.steps, self.single, self._list = (), None, None
        self._holder = compile_path(steps_text(lookup.steps[: lookup.first_wildcard]))
        self._known: tuple[Json, _Index] = (None, {})

    def __reduce__(self) -> tuple[Callable[..., "Path"], tuple[object, ...]]:
        """Pickle by the four paths; what is known of a row is left behind."""
        return Lookup, tuple(self.parts.values())

    def nodes(self, start: Node) -> list[Node]:
        """Return every hit, in the order of the hits of `of`."""
        hits: list[Node] = []
        for wanted in self.parts["of"].find(start):
            if wanted is None or isinstance(wanted, list | dict):
                continue
            elements = self._index(start).get((isinstance(wanted, bool), wanted), [])
            if len(elements) > 1:
                raise RowError("ambiguous_lookup", self.text, found_text(wanted))
            for element in elements:
                hits += self.parts["take"].nodes(element)
        return hits

    def _index(self, start: Node) -> _Index:
        """The elements by key (`true` is not 1); that of the last list is kept for what follows."""
        holders = self._holder.nodes(start)
        holder = holders[0].value if len(holders) == 1 else None
        if holder is not self._known[0] or not isinstance(holder, list | dict):
            index: _Index = {}
            for element in self.parts["lookup"].nodes(start):
                keys = self.parts["key"].find(element)
                if keys and keys[0] is not None and not isinstance(keys[0], list | dict):
                    index.setdefault((isinstance(keys[0], bool), keys[0]), []).append(element)
            self._known = (holder, index)
        return self._known[1]


def taken_path(path: Path) -> Path:
    """Return the path whose value is taken: of a lookup the one inside the element found."""
    return path.parts["take"] if isinstance(path, Lookup) else path
