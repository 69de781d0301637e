"""What lies in the work folder of a run while it is on its way.

    parts/day_0/dense.npy, labels.npy    as they will be, before shuffling
    parts/day_0/cat_0.raw                uint32[N], until the column has its ids (encode=columns)
    parts/day_0/cat_0.ids                int32[N]
    parts/day_0/rejects.jsonl
    logs/cat_0                           uint32, the values in the order of their ids
    done/NAME.json                       a finished step: its facts. There whole, or not at all
    buckets/000012                       records of shuffled rows

A step that is done is not done again; what an unfinished one left behind is written over.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import encode, sync, sync_tree, write_file
from ingot.converters.rows import Json


@dataclass(frozen=True)
class Work:
    """The work folder at `root`."""

    root: Path

    def part(self, name: str) -> Path:
        """The folder of a part."""
        return self.root / "parts" / name

    def column(self, part: str, key: str, kind: str) -> Path:
        """The file of a column of a part; kind: raw | ids."""
        return self.part(part) / f"{key}.{kind}"

    def log(self, key: str) -> Path:
        """The log of a column's values."""
        return self.root / "logs" / key

    def bucket(self, number: int) -> Path:
        """The file of a bucket of the shuffle."""
        return self.root / "buckets" / f"{number:06d}"

    def remap(self, key: str) -> Path:
        """The file of final ids by number, int32."""
        return self.root / "remaps" / key

    def facts(self, step: str) -> dict[str, Json] | None:
        """What a finished step left, None where it is not done."""
        try:
            return cast(dict[str, Json], json.loads(self._marker(step).read_bytes()))
        except FileNotFoundError:
            return None

    def done(self, step: str, facts: dict[str, Json]) -> None:
        """Say that a step is done; its files must be on the disk."""
        self._marker(step).parent.mkdir(exist_ok=True)
        for folder in self.root.iterdir():  # the names of what the step wrote
            sync(folder)
        write_file(self._marker(step), encode(facts))
        sync(self._marker(step).parent)

    def undo(self, steps: Iterable[str]) -> None:
        """Say that steps are not done, whether they were or not."""
        remove(self._marker(step) for step in steps)
        if (folder := self._marker("").parent).exists():
            sync(folder)

    def _marker(self, step: str) -> Path:
        return self.root / "done" / f"{step}.json"

    def forget_part(self, name: str) -> None:
        """Delete what was read of a part."""
        shutil.rmtree(self.part(name), ignore_errors=True)

    def fresh_part(self, name: str) -> Path:
        """An empty folder for a part."""
        self.forget_part(name)
        self.part(name).mkdir(parents=True)
        return self.part(name)

    def drop(self, name: str) -> None:
        """Delete the arrays of a part that is written."""
        folder = self.part(name)
        remove([folder / "dense.npy", folder / "labels.npy", *folder.glob("*.ids")])

    def sync(self, *places: Path) -> None:
        """Wait until files and folders are on the disk."""
        for place in places:
            sync_tree(place) if place.is_dir() else sync(place)


def mapped(path: Path, dtype: type[np.generic], offset: int = 0) -> NDArray[np.generic]:
    """The values of a file, mapped into memory; an empty one as an empty array."""
    if path.stat().st_size <= offset:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r", offset)


def remove(paths: Iterable[Path]) -> None:
    """Delete files, those that are there."""
    for path in paths:
        path.unlink(missing_ok=True)
