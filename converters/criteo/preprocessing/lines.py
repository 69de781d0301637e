"""Blocks of raw lines as numbers."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import DENSE, SPARSE
from ingot.converters.criteo.preprocessing.kernels.parsing import (
    BAD_COLUMNS,
    HEX_DIGITS,
    LINES,
    POSITION,
    REJECTS,
    ROWS,
    count_lines,
    parse,
)

REASONS: Final = ("columns", "label", "dense", "sparse")
"""Why a line is a reject: the number of its fields, or a field that is no such number."""
NO_LABEL: Final = -1
"""The label of a file that has none."""

_ROOM: Final = 1 << 12  # rejects at a time
_SHOWN: Final = 80  # bytes of a field in a reject


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A line that is no row: its number in the file from 1, why, and what stands there."""

    line: int
    reason: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """Lines as numbers.

    Attributes:
        lines: how many were read.
        labels: int32[R].
        dense: int32[R, 13], missing values 0.
        sparse: uint32[26, R], missing values 0.
        missing: int64[39], empty fields of rows, dense then sparse.
        rejects: the other lines, numbered from 1 in the block.
    """

    lines: int
    labels: NDArray[np.int32]
    dense: NDArray[np.int32]
    sparse: NDArray[np.uint32]
    missing: NDArray[np.int64]
    rejects: tuple[Reject, ...]


def parse_block(text: NDArray[np.uint8], *, labelled: bool) -> Block:
    """Parse whole lines.

    Args:
        text: uint8[n].
        labelled: whether lines begin with a label; else every label is -1.
    """
    room = count_lines(text)
    labels = np.full(room, NO_LABEL, np.int32)
    dense = np.empty((room, DENSE), np.int32)
    sparse = np.empty((SPARSE, room), np.uint32)
    missing = np.zeros(labelled + DENSE + SPARSE, np.int64)
    found: list[Reject] = []
    rejects = np.zeros((_ROOM, 5), np.int64)
    state = np.zeros(4, np.int64)
    while state[POSITION] < len(text):
        state[REJECTS] = 0
        parse(
            text, HEX_DIGITS, int(labelled), DENSE, labels, dense, sparse, missing, rejects, state
        )
        found += [_reject(text, one, labelled) for one in rejects[: state[REJECTS]]]
    rows = int(state[ROWS])
    return Block(
        lines=int(state[LINES]),
        labels=labels[:rows],
        dense=dense[:rows],
        sparse=sparse[:, :rows],
        missing=missing[int(labelled) :],
        rejects=tuple(found),
    )


def _reject(text: NDArray[np.uint8], told: NDArray[np.int64], labelled: bool) -> Reject:
    line, reason, begin, end, number = (int(one) for one in told)
    field = text[begin : min(end, begin + _SHOWN)].tobytes().decode("utf-8", "backslashreplace")
    shown = field + "..." * (end - begin > _SHOWN)
    if reason == BAD_COLUMNS:
        found = f"{number} columns: {shown}"
    else:
        found = f"{_column(number, labelled)}: {shown}"
    return Reject(line=line + 1, reason=REASONS[reason], found=found)


def _column(number: int, labelled: bool) -> str:
    number -= int(labelled)
    if number < 0:
        return "label"
    return f"int_{number}" if number < DENSE else f"cat_{number - DENSE}"
