"""Write what is read of a part, array by array, into a folder.

`dense.npy` and `labels.npy` are as they will be before shuffling, `cat_0.raw` to `cat_25.raw` are
uint32[N] until their columns have ids, and `rejects.jsonl` has the lines that are not rows.
"""

import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.criteo.contract import DTYPES, HEADER, KEYS, REJECTS, npy_header
from ingot.converters.recsys.criteo.preprocess.raw_lines import Rejects
from ingot.converters.sources.recognizers.criteo import WIDTHS


def raw_values(folder: Path, key: str) -> Path:
    """Return the file with the raw values of a column of a part."""
    return folder / f"{key}.raw"


_Number = TypeVar("_Number", bound=np.generic)


def map_values(path: Path, dtype: type[_Number]) -> NDArray[_Number]:
    """Map the values of a file into memory; an empty file gives an empty array."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


class PartFiles:
    """Appends to the files of a part; `finish` makes them complete."""

    def __init__(self, folder: Path, file: str) -> None:
        self._folder, self._file = folder, file
        self._open = ExitStack()
        self.dense = self._create("dense.npy", HEADER)
        self.labels = self._create("labels.npy", HEADER)
        self.columns = [self._create(raw_values(folder, key).name) for key in KEYS]
        self._rejects: BinaryIO | None = None

    def _create(self, name: str, header_size: int = 0) -> BinaryIO:
        # Without a buffer: what is written is large, and goes to the kernel by itself.
        file: BinaryIO = self._open.enter_context((self._folder / name).open("wb", buffering=0))
        file.write(bytes(header_size))
        return file

    def add_rejects(self, rejects: Rejects, lines_before: int) -> None:
        """Append lines that are no rows."""
        if len(rejects) and self._rejects is None:
            self._rejects = self._open.enter_context((self._folder / REJECTS).open("wb"))
        for one in rejects:
            document = {"file": self._file, "line": lines_before + one.line + 1}
            document |= {"reason": one.reason, "found": one.found}
            text = json.dumps(document, ensure_ascii=False) + "\n"
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
