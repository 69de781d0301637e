"""Tables of ids drawn at random: the reference's numbers, a block of rows at a time.

A stream of `RandomState` does not depend on how many numbers are drawn at once, so the blocks of a
table are the table.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.widening.parameters import FEATURE, UNIFORM, Parameters

BLOCK: Final = 1 << 21
"""About how many numbers are drawn at a time: 16 MiB of them, as they come."""
_SHAPE: Final = 0.25
"""Of the Pareto distribution."""
_INT_MIN: Final = -(1 << 31)


def states(parameters: Parameters) -> Iterator[tuple[int, np.random.RandomState]]:
    """The features to widen, each with the state that its table is drawn from, in this order.

    With one seed for all, a table is drawn to its end before the next feature is asked for.
    """
    shared = np.random.RandomState(0)
    for place in parameters.widened:
        each = parameters.seeding == FEATURE
        yield place, np.random.RandomState(place) if each else shared


def blocks(
    state: np.random.RandomState, rows: int, size: int, distribution: str, block: int = BLOCK
) -> Iterator[NDArray[np.int32]]:
    """A table as int32 [n, size] blocks: the id itself, then `size - 1` drawn ones.

    Args:
        state: whose next numbers are drawn.
        rows: ids of the table.
        size: at least 2.
        distribution: uniform | pareto.
        block: numbers that are drawn at a time, at least one row of them.
    """
    step = max(1, block // (size - 1))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        table = np.empty((stop - start, size), np.int32)
        table[:, 0] = np.arange(start, stop, dtype=np.int32)
        table[:, 1:] = _draw(state, rows, (stop - start, size - 1), distribution)
        yield table


def _draw(
    state: np.random.RandomState, rows: int, shape: tuple[int, int], distribution: str
) -> NDArray[np.int64] | NDArray[np.int32]:
    if distribution == UNIFORM:
        return state.randint(0, rows, size=shape, dtype=np.int64)
    drawn = state.pareto(_SHAPE, size=shape)
    # What a conversion of larger numbers gives is the machine's affair; on x86 it is this.
    drawn[drawn >= 1 << 31] = _INT_MIN
    return np.mod(drawn.astype(np.int32), np.int32(rows))
