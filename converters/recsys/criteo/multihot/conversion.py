"""`MultiHot`: every id of a large table becomes several, by tables drawn at random."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.output.files import output_errors
from ingot.converters.recsys.criteo.contract import add_counts
from ingot.converters.recsys.criteo.kjt import KeyedJaggedTensor
from ingot.converters.recsys.criteo.multihot import id_tables
from ingot.converters.recsys.training.environment import import_torch

if TYPE_CHECKING:
    import torch


class Frequencies:
    """Counts of all F features: `pre` and `post` are lists of int64 [num_embeddings]."""

    def __init__(self, num_embeddings: Sequence[int]) -> None:
        # Zeroed pages take no memory before they are written.
        self.pre = [np.zeros(rows, np.int64) for rows in num_embeddings]
        self.post = [np.zeros(rows, np.int64) for rows in num_embeddings]

    def add(self, feature: int, before: NDArray[np.integer], after: NDArray[np.integer]) -> None:
        """Count ids of a feature, which are below its num_embeddings."""
        add_counts(self.pre[feature], before)
        add_counts(self.post[feature], after)

    def save(self, folder: Path, distribution: str) -> list[Path]:
        """Write both files as the reference does: a dict of "0", "1", ... to counts, pickled."""
        paths = []
        for phase, counts in (("pre", self.pre), ("post", self.post)):
            path = folder / f"stats_{phase}_hash_{distribution}.npy"
            document = {str(index): one for index, one in enumerate(counts)}
            with output_errors(path):
                np.save(path, np.array(document, dtype=object), allow_pickle=True)
            paths.append(path)
        return paths


class MultiHot:
    """A multi-hot conversion of F features.

    A cell with id i of a feature that is widened gets the ids of row i of the feature's table: i
    itself and `size - 1` drawn ones. Tables depend on the parameters alone, and are not trained.

    As the document has it (dlrm at 4a9d018): `MultiHot(num_embeddings, multi_hot_size,
    multi_hot_min_table_size)`; features of at least that many embeddings are widened. As dlrm has
    it today: `MultiHot(num_embeddings, multi_hot_sizes=[...], seeding="global0")`.

    Pickled, tables of a folder stay there, and those in memory travel along. A process counts the
    batches that it converts itself: a worker's counts stay with the worker.

    Attributes:
        parameters: as they were checked.
        collect_multi_hot_freqs_stats: whether batches are counted; may be switched, as to count no
            batches of a test.

    Args:
        num_embeddings: F sizes; ids are below them.
        multi_hot_size: ids that a widened cell gets, together with
        multi_hot_min_table_size: the smallest num_embeddings of a feature that is widened.
        multi_hot_distribution_type: uniform | pareto. Pareto's draws of 2**31 and more become
            -2**31 before the modulo, as on x86, on every machine.
        collect_multi_hot_freqs_stats: see above; counts take 16 bytes a row of every table.
        multi_hot_sizes: in place of the two above: ids of a cell of each feature, 1 for no more.
        seeding: feature: the table of feature k is drawn with the seed k; global0: all one after
            another with the seed 0.
        folder: keep the tables in files there, mapped into memory, and find them there again; None
            to hold them in memory. Rows of 4 * size bytes: 23.9 GB for MLPerf's.

    Raises:
        ValueError: parameters that cannot be.
        ConversionError: the tables do not fit into memory, or torch is not installed.
        OutputError, SourceError: the tables cannot be written, or read again.
    """

    def __init__(
        self,
        num_embeddings: Sequence[int],
        multi_hot_size: int | None = None,
        multi_hot_min_table_size: int | None = None,
        multi_hot_distribution_type: str = id_tables.UNIFORM,
        *,
        collect_multi_hot_freqs_stats: bool = False,
        multi_hot_sizes: Sequence[int] | None = None,
        seeding: str = id_tables.FEATURE,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.parameters = id_tables.Parameters.of(
            num_embeddings,
            multi_hot_size,
            multi_hot_min_table_size,
            multi_hot_sizes,
            multi_hot_distribution_type,
            seeding,
        )
        self.collect_multi_hot_freqs_stats = bool(collect_multi_hot_freqs_stats)
        self._folder = None if folder is None else Path(folder).absolute()
        self._frequencies: Frequencies | None = None
        self._offsets: torch.Tensor | None = None
        self._open()

    def _open(self) -> None:
        from_numpy = import_torch().from_numpy  # before time goes into tables
        if self._folder is None:
            tables = id_tables.draw_tables(self.parameters)
        else:
            tables = id_tables.open_tables(self.parameters, self._folder)
        self._weight = [None if table is None else from_numpy(table) for table in tables]

    @property
    def weight(self) -> "list[torch.Tensor | None]":
        """Return int32 [num_embeddings, size] of each widened feature, None for the others.

        Column 0 is the id itself. 4a9d018 has zeros there, which it replaces after the lookup.
        """
        return self._weight

    def convert(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Widen the features of a batch of any number of examples.

        Args:
            features: F keys, one id a cell, on the CPU.

        Returns:
            `offsets` int64; `values` int32, but of int64 ids and feature seeding int64 while a
            feature is not widened: what the reference gives.

        Raises:
            ConversionError: other features, or an id that is not below its num_embeddings.
        """
        ids = self._ids(features)
        sizes, (count, stride) = self.parameters.sizes, ids.shape
        # 4a9d018 joins ids and rows of tables as they are; since then all go through a table.
        narrow: torch.dtype = import_torch().int32
        joined = self.parameters.seeding != id_tables.GLOBAL0 and 1 in self.parameters.sizes
        values = ids.new_empty(sum(sizes) * stride, dtype=ids.dtype if joined else narrow)
        starts = [0]
        for feature in range(count):
            starts.append(starts[-1] + sizes[feature] * stride)
            cells = values[starts[-2] : starts[-1]].view(stride, sizes[feature])
            self._fill(cells, ids[feature], self._weight[feature])
        if self.collect_multi_hot_freqs_stats:
            after = values.numpy()
            for feature, row in enumerate(ids.numpy()):
                self.frequencies.add(feature, row, after[starts[feature] : starts[feature + 1]])
        offsets = self._offsets_of(stride)
        return KeyedJaggedTensor.from_checked(
            features.keys(), values, None, offsets, stride, offset_per_key=starts
        )

    __call__ = convert

    @staticmethod
    def _fill(cells: "torch.Tensor", ids: "torch.Tensor", table: "torch.Tensor | None") -> None:
        if table is None:
            cells[:, 0] = ids
        elif cells.dtype == table.dtype:
            import_torch().index_select(table, 0, ids, out=cells)
        else:
            cells.copy_(table.index_select(0, ids))

    def _ids(self, features: KeyedJaggedTensor) -> "torch.Tensor":
        """[F, B]; an error where the features do not fit."""
        rows, values, keys = self.parameters.num_embeddings, features.values(), features.keys()
        if len(keys) != len(rows):
            problem = f"{len(keys)} features, and num_embeddings has {len(rows)}"
            raise ConversionError("", problem, "give one size for each feature")
        if not values.is_cpu:
            problem = f"the batch is on {values.device}, and the tables are on the CPU"
            raise ConversionError("", problem, "convert it before it is moved")
        if not features.one_each():
            problem = "a cell of the batch does not hold one id"
            raise ConversionError("", problem, "convert a batch once, as the data set gives it")
        ids = values.view(len(keys), features.stride())
        if features.stride():
            _check_below(ids, keys, rows)
        return ids

    def _offsets_of(self, stride: int) -> "torch.Tensor":
        torch = import_torch()
        if self._offsets is None or len(self._offsets) != len(self.parameters.sizes) * stride + 1:
            lengths = torch.tensor(self.parameters.sizes).repeat_interleave(stride)
            with torch.inference_mode(False):
                offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64)
                torch.cumsum(lengths, 0, out=offsets[1:])
            self._offsets = offsets
        return self._offsets

    @property
    def frequencies(self) -> Frequencies:
        """Return the counts of all features, before and after: `pre` and `post`."""
        if self._frequencies is None:
            self._frequencies = Frequencies(self.parameters.num_embeddings)
        return self._frequencies

    def save_freqs_stats(self, folder: str | os.PathLike[str] = ".") -> list[Path]:
        """Write `stats_pre_hash_{distribution}.npy` and `stats_post_hash_{distribution}.npy`.

        Each holds a dict of "0" to "25" to int64 counts, as the reference's: read it with
        `numpy.load(path, allow_pickle=True).item()`.

        Raises:
            OutputError: they cannot be written.
        """
        return self.frequencies.save(Path(folder), self.parameters.distribution)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_offsets": None}
        if self._folder is not None:
            state["_weight"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._folder is not None:
            self._open()


def _check_below(ids: "torch.Tensor", keys: Sequence[str], rows: Sequence[int]) -> None:
    lowest, highest = ids.amin(1).tolist(), ids.amax(1).tolist()
    for key, low, high, size in zip(keys, lowest, highest, rows, strict=True):
        if low < 0 or high >= size:
            problem = f"{key} has the id {low if low < 0 else high}, and num_embeddings says {size}"
            hint = "give the data set num_embeddings, which takes ids modulo them, or larger sizes"
            raise ConversionError("", problem, hint)
