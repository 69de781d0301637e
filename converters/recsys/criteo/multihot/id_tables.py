"""The tables of a multi-hot conversion: drawn at random, in memory or in mapped files."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ArgumentError, ConversionError, OutputError, SourceError
from ingot.converters.json_yaml import encode, json_digest
from ingot.converters.output.files import encode_json, hold_lock, output_errors, sync_tree
from ingot.converters.recsys.criteo.contract import npy_header
from ingot.converters.recsys.criteo.kjt_fields import check_sizes
from ingot.converters.recsys.training.environment import check_integer

UNIFORM, PARETO = "uniform", "pareto"
DISTRIBUTIONS: Final = (UNIFORM, PARETO)
FEATURE, GLOBAL0 = "feature", "global0"
SEEDINGS: Final = (FEATURE, GLOBAL0)
VERSION: Final = 1  # of how tables follow from parameters, for those that are kept
MOST_IDS: Final = 1 << 20
"""The most ids of a cell: far more than anybody wants, few enough for sums of them."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Checked parameters of F features; equal ones make equal tables."""

    num_embeddings: tuple[int, ...]
    sizes: tuple[int, ...]  # ids that a cell of each feature gets; 1 leaves it as it is
    distribution: str
    # feature: the table of feature k is drawn with the seed k; global0: all tables one after
    # another with the seed 0
    seeding: str

    @classmethod
    def of(
        cls,
        num_embeddings: Sequence[int],
        multi_hot_size: int | None = None,
        multi_hot_min_table_size: int | None = None,
        multi_hot_sizes: Sequence[int] | None = None,
        multi_hot_distribution_type: str = UNIFORM,
        seeding: str = FEATURE,
    ) -> "Parameters":
        """Make parameters of the arguments of `MultiHot`."""
        rows = check_sizes(num_embeddings, len(num_embeddings))
        if not rows:
            raise ArgumentError("num_embeddings", "give one size for each feature")
        check_one_of("multi_hot_distribution_type", multi_hot_distribution_type, DISTRIBUTIONS)
        check_one_of("seeding", seeding, SEEDINGS)
        if multi_hot_sizes is None:
            sizes = _sizes_by_table(rows, multi_hot_size, multi_hot_min_table_size)
        elif multi_hot_size is not None or multi_hot_min_table_size is not None:
            reason = "they say which features get how many ids"
            raise ArgumentError("multi_hot_sizes", f"{reason}: give no other size beside them")
        else:
            owner = "num_embeddings has "
            sizes = check_sizes(multi_hot_sizes, len(rows), "multi_hot_sizes", MOST_IDS, owner)
        return cls(
            num_embeddings=tuple(rows),
            sizes=tuple(sizes),
            distribution=multi_hot_distribution_type,
            seeding=seeding,
        )

    @property
    def widened(self) -> list[int]:
        """Return the features whose cells get more than one id."""
        return [feature for feature, size in enumerate(self.sizes) if size > 1]

    @property
    def table_bytes(self) -> int:
        """Return the size of the int32 tables in bytes."""
        return sum(
            4 * self.num_embeddings[feature] * self.sizes[feature] for feature in self.widened
        )

    def to_json(self) -> dict[str, object]:
        """Return the parameters for a manifest."""
        document: dict[str, object] = encode(self)
        return document

    def digest(self) -> str:
        """Return a name for the tables."""
        return json_digest({**self.to_json(), "version": VERSION})


def check_one_of(name: str, value: object, known: Sequence[str]) -> None:
    """See that an argument is one of some words."""
    if value not in known:
        raise ArgumentError(name, f"{value!r} is not one of {', '.join(known)}")


def _sizes_by_table(rows: list[int], size: int | None, min_rows: int | None) -> list[int]:
    if size is None or min_rows is None:
        hint = "give multi_hot_size and multi_hot_min_table_size, or multi_hot_sizes"
        problem = f"the number of ids of each feature is missing: {hint}"
        raise ArgumentError("multi_hot_size", problem)
    size = check_integer("multi_hot_size", size, 1, MOST_IDS)
    min_rows = check_integer("multi_hot_min_table_size", min_rows, 0)
    return [size if count >= min_rows else 1 for count in rows]


BLOCK: Final = 1 << 21
"""About how many numbers are drawn at a time: 16 MiB of them, as they come."""
_SHAPE: Final = 0.25  # of the Pareto distribution
_INT_MIN: Final = -(1 << 31)


def feature_states(parameters: Parameters) -> Iterator[tuple[int, np.random.RandomState]]:
    """Yield the features to widen, each with the random state of its table, in this order."""
    shared = np.random.RandomState(0)  # a table is drawn to its end before the next one
    for feature in parameters.widened:
        own_state = parameters.seeding == FEATURE
        yield feature, np.random.RandomState(feature) if own_state else shared


def draw_blocks(
    state: np.random.RandomState, rows: int, size: int, distribution: str, block: int = BLOCK
) -> Iterator[NDArray[np.int32]]:
    """Yield a table as int32 [n, size] blocks: the id itself, then `size - 1` drawn ids."""
    step = max(1, block // (size - 1))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        table = np.empty((stop - start, size), np.int32)
        table[:, 0] = np.arange(start, stop, dtype=np.int32)
        table[:, 1:] = _draw_ids(state, rows, (stop - start, size - 1), distribution)
        yield table


def _draw_ids(
    state: np.random.RandomState, rows: int, shape: tuple[int, int], distribution: str
) -> NDArray[np.int64] | NDArray[np.int32]:
    if distribution == UNIFORM:
        return state.randint(0, rows, size=shape, dtype=np.int64)
    samples = state.pareto(_SHAPE, size=shape)
    # What a conversion of larger numbers gives is the machine's affair; on x86 it is this.
    samples[samples >= 1 << 31] = _INT_MIN
    return np.mod(samples.astype(np.int32), np.int32(rows))


def check_room(folder: Path, need: int, content: str) -> None:
    """See that a folder's disk has room."""
    free = shutil.disk_usage(folder).free
    if free < need:
        sizes = f"{need / 1e9:,.1f} GB for {content}, {free / 1e9:,.1f} are free"
        raise OutputError(str(folder), f"the disk is too small: {sizes}", "choose another folder")


Tables = list[NDArray[np.int32] | None]
"""[n, size] of each feature that is widened, column 0 the id itself; None of the others."""
_PARAMETERS_FILE: Final = "parameters.json"


def draw_tables(parameters: Parameters) -> Tables:
    """Draw the tables in memory."""
    tables: Tables = [None] * len(parameters.sizes)
    try:
        for feature, state in feature_states(parameters):
            rows, size = parameters.num_embeddings[feature], parameters.sizes[feature]
            table, row = np.empty((rows, size), np.int32), 0
            for block in draw_blocks(state, rows, size, parameters.distribution):
                table[row : row + len(block)] = block
                row += len(block)
            tables[feature] = table
    except MemoryError as error:
        problem = (
            f"the tables take {parameters.table_bytes / 1e9:,.1f} GB of memory, and are too much"
        )
        raise ConversionError("", problem, "give a folder to keep them in") from error
    return tables


def open_tables(parameters: Parameters, folder: Path) -> Tables:
    """Return the tables, mapped from files that are created if they are missing."""
    # Named after the parameters; who comes while another process makes them waits for it.
    table_folder = folder / f"multihot-{parameters.digest()[:16]}"
    if not table_folder.exists():
        with output_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with hold_lock(folder / f".{table_folder.name}.lock", wait_s=inf):
                if not table_folder.exists():
                    _make_tables(parameters, table_folder)
    return [
        _open_table(table_folder / f"table_{feature}.npy", (rows, size)) if size > 1 else None
        for feature, (rows, size) in enumerate(
            zip(parameters.num_embeddings, parameters.sizes, strict=True)
        )
    ]


def _make_tables(parameters: Parameters, table_folder: Path) -> None:
    unfinished = table_folder.with_name(f".{table_folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    check_room(table_folder.parent, parameters.table_bytes, "tables")
    try:
        unfinished.mkdir()
        for feature, state in feature_states(parameters):
            rows, size = parameters.num_embeddings[feature], parameters.sizes[feature]
            with (unfinished / f"table_{feature}.npy").open("wb") as file:
                file.write(npy_header("<i4", (rows, size)))
                for block in draw_blocks(state, rows, size, parameters.distribution):
                    file.write(block.astype("<i4", copy=False).data)
        (unfinished / _PARAMETERS_FILE).write_bytes(encode_json(parameters.to_json()))
        sync_tree(unfinished)
        unfinished.rename(table_folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _open_table(path: Path, shape: tuple[int, int]) -> NDArray[np.int32]:
    try:
        # Copy on write, and nobody writes: torch wants to be able to.
        table: NDArray[np.int32] = np.lib.format.open_memmap(path, "c")
        if table.shape != shape or table.dtype != np.dtype("<i4"):
            raise ValueError(f"{table.dtype} of shape {table.shape}")
    except (OSError, ValueError) as error:
        hint = f"delete {path.parent}: it is created again"
        raise SourceError(
            str(path), f"is not a table of these parameters: {error}", hint
        ) from error
    return table
