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
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from ingot.converters.json_yaml import load_json
from ingot.converters.output.files import encode_json, sync_path, sync_tree, write_file
from ingot.converters.recsys.criteo.contract import DTYPES, HEADER, KEYS, REJECTS, npy_header
from ingot.converters.recsys.criteo.preprocess.raw_lines import Rejects
from ingot.converters.sources.recognizers.criteo import WIDTHS


@dataclass(frozen=True)
class WorkFolder:
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

    def facts(self, step: str) -> dict[str, object] | None:
        """What a finished step left, None where it is not done."""
        marker = self._marker(step)
        return load_json(marker) if marker.exists() else None

    def done(self, step: str, facts: Mapping[str, object]) -> None:
        """Say that a step is done; its files must be on the disk."""
        self._marker(step).parent.mkdir(exist_ok=True)
        for folder in self.root.iterdir():  # the names of what the step wrote
            sync_path(folder)
        write_file(self._marker(step), encode_json(facts))
        sync_path(self._marker(step).parent)

    def undo(self, steps: Iterable[str]) -> None:
        """Say that steps are not done, whether they were or not."""
        remove_files(self._marker(step) for step in steps)
        if (folder := self._marker("").parent).exists():
            sync_path(folder)

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
        remove_files([folder / "dense.npy", folder / "labels.npy", *folder.glob("*.ids")])

    def sync(self, *places: Path) -> None:
        """Wait until files and folders are on the disk."""
        for place in places:
            sync_tree(place) if place.is_dir() else sync_path(place)


_Number = TypeVar("_Number", bound=np.generic)


def map_values(path: Path, dtype: type[_Number]) -> NDArray[_Number]:
    """The values of a file, mapped into memory; an empty one as an empty array."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


def remove_files(paths: Iterable[Path]) -> None:
    """Delete files, those that are there."""
    for path in paths:
        path.unlink(missing_ok=True)


class PartFiles:
    """Appends to the files of a part; `finish` makes them complete."""

    def __init__(self, folder: Path, file: str, kind: str) -> None:
        self._folder, self._file, self._kind = folder, file, kind
        self._open = ExitStack()
        self.dense = self._create("dense.npy", HEADER)
        self.labels = self._create("labels.npy", HEADER)
        self.columns = [self._create(f"{key}.{kind}") for key in KEYS]
        self._rejects: BinaryIO | None = None

    def _create(self, name: str, begin: int = 0) -> BinaryIO:
        # Without a buffer: what is written is large, and goes to the kernel by itself.
        file: BinaryIO = self._open.enter_context((self._folder / name).open("wb", buffering=0))
        file.write(bytes(begin))
        return file

    def add_rejects(self, rejects: Rejects, lines_before: int) -> None:
        """Append lines that are no rows."""
        if len(rejects) and self._rejects is None:
            self._rejects = self._open.enter_context((self._folder / REJECTS).open("wb"))
        for one in rejects:
            told = {"file": self._file, "line": lines_before + one.line + 1}
            told |= {"reason": one.reason, "found": one.found}
            text = json.dumps(told, ensure_ascii=False) + "\n"
            self._rejects.write(text.encode(errors="backslashreplace"))  # type: ignore[union-attr]

    def finish(self, rows: int) -> None:
        """Write the headers and close the files."""
        for kind, file in (("dense", self.dense), ("labels", self.labels)):
            file.seek(0)
            file.write(npy_header(DTYPES[kind].str, (rows, WIDTHS[kind])))
        self._open.close()

    def close(self) -> None:
        """Close the files of a part that failed."""
        with suppress(OSError):
            self._open.close()


def append_values(file: BinaryIO, values: NDArray[Any]) -> None:
    """Write all of some values, also where the system takes fewer bytes at a time."""
    view = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    while view:
        view = view[os.write(file.fileno(), view) :]
