"""A processed folder as it lies on disk: its Parquet files, opened and read in batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.ctr import contract
from ingot.converters.errors import SourceError

FEATUREMAP = "featuremap.yaml"
STATS = "stats.json"
VOCAB = "vocab"
REJECTS = "rejects.jsonl"
BATCH_ROWS = 8192
_UNREADABLE = (OSError, pa.ArrowException, ValueError)  # what pyarrow says of damaged files


@dataclass(frozen=True, kw_only=True)
class Part:
    """A Parquet file of a split.

    Attributes:
        split: train or valid.
        path: of the file.
        name: its path in the folder, with `/`.
    """

    split: str
    path: Path
    name: str


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The files of a processed folder, by split, sorted by name."""

    root: Path
    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """The files of all splits, those of train first."""
        return tuple(part for split in contract.SPLITS for part in self.parts.get(split, ()))


def find(root: Path) -> Folder:
    """The processed files under a folder.

    Raises:
        SourceError: it is no folder, or holds no split.
    """
    if not root.is_dir():
        raise SourceError(str(root), "no such folder", "name the folder that a build wrote")
    splits = [split for split in contract.SPLITS if (root / split).is_dir()]
    if not splits:
        hint = "a processed folder has train/ and valid/"
        raise SourceError(str(root), "neither train/ nor valid/ is in it", hint)
    return Folder(root=root, parts={split: _parts(root, split) for split in splits})


def _parts(root: Path, split: str) -> tuple[Part, ...]:
    files = sorted(path for path in (root / split).glob("*.parquet") if path.name[0] != ".")
    return tuple(Part(split=split, path=path, name=f"{split}/{path.name}") for path in files)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Translates what pyarrow says of a file that is damaged, gone or no Parquet.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(name, "no such file") from error
    except _UNREADABLE as error:
        said = " ".join(str(error).split())
        raise SourceError(name, f"cannot be read: {said}") from error


def schema(part: Part) -> pa.Schema:
    """The Arrow schema of a file with its metadata; SourceError if it cannot be read."""
    with reading(part.name):
        return pq.read_schema(part.path)


def row_count(part: Part) -> int:
    """The rows of a file as its footer says; SourceError if it cannot be read."""
    with reading(part.name):
        return int(pq.read_metadata(part.path).num_rows)


def batches(
    part: Part, columns: list[str] | None = None, rows: int = BATCH_ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file in order, with the number of the first of each batch.

    Args:
        part: the file.
        columns: which are read, None for all.
        rows: of a batch, at most.

    Raises:
        SourceError: it cannot be read, from some batch on.
    """
    first = 0
    with reading(part.name):
        file = pq.ParquetFile(part.path, memory_map=False, pre_buffer=False)
    with file:
        following = iter(file.iter_batches(batch_size=rows, columns=columns))
        while True:
            with reading(part.name):
                batch = next(following, None)
            if batch is None:
                return
            yield first, batch
            first += batch.num_rows
