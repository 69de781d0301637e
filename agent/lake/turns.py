"""In which order data sets get their turn, so that one model answer serves all of a shape.

Which shape a data set has is known for sure only when it was sampled. Until then those with the
same keys or columns are taken to be alike, and the first of them by name goes first; the others are
put off once, with their shape, and get their turn when the first of that shape has come to its end.
So who is asked about does not depend on who is faster.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ingot.converters.lake.survey import DataSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A data set whose turn it is.

    Attributes:
        data_set: the data set.
        after: the data set that is to ask a model first if both have one shape, "" = none.
        pending: names of all that have not come to their end.
    """

    data_set: DataSet
    after: str
    pending: frozenset[str]


class Turns:
    """Data sets that wait for their turn.

    Args:
        sets: the data sets, in the order in which they are best begun.
    """

    def __init__(self, sets: Iterable[DataSet]) -> None:
        self._waiting = {one.name: one for one in sets}
        self._shapes: dict[str, str] = {}
        self._led: set[str] = set()  # shapes of which one has come to its end
        self._stuck = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def one_by_one(self) -> bool:
        """Whether all were in the way of each other when several had their turn at a time."""
        return self._stuck == 1

    def next(self) -> list[Turn]:
        """Whose turn it is now; everybody's, where nobody came to an end one by one either."""
        if self._stuck > 1:
            return [self._turn(one, "", frozenset()) for one in self._waiting.values()]
        pending, firsts = frozenset(self._waiting), self._firsts()
        turns = []
        for one in self._waiting.values():
            first, shape = firsts[self._likeness(one)], self._shapes.get(one.name)
            if first == one.name or shape in self._led:
                turns.append(self._turn(one, "", pending))
            elif shape is None:
                turns.append(self._turn(one, first, pending))
        return turns

    def _turn(self, one: DataSet, after: str, pending: frozenset[str]) -> Turn:
        return Turn(data_set=one, after=after, pending=pending)

    def _firsts(self) -> dict[object, str]:
        """The first by name of those that are, or may be, alike."""
        alike: dict[object, list[str]] = defaultdict(list)
        for one in self._waiting.values():
            alike[self._likeness(one)].append(one.name)
        return {likeness: min(names) for likeness, names in alike.items()}

    def _likeness(self, one: DataSet) -> object:
        return self._shapes.get(one.name) or keys(one)

    def settle(self, ended: Mapping[str, str], put_off: Mapping[str, str]) -> None:
        """What came of a round, each with its shape ("" = unknown): who ended, who was put off."""
        for name in ended:
            del self._waiting[name]
        self._led.update(ended.values())
        self._shapes |= {name: shape for name, shape in put_off.items() if shape}
        self._stuck = 0 if ended else self._stuck + 1


def keys(one: DataSet) -> frozenset[str]:
    """What is known of the shape of a data set's rows before they are sampled."""
    return frozenset(name for file in one.source.files for name in file.facts.shape)
