"""The files of a part while it is read."""

import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import KEYS, REJECTS
from ingot.converters.criteo.preprocessing.arrays import HEADER, header
from ingot.converters.criteo.preprocessing.lines import Rejects


class PartFiles:
    """Appends to the files of a part; `finish` makes them complete.

    Args:
        folder: of the part, empty.
        file: the name that rejects give.
        kind: of the columns, raw | ids.
    """

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
        """Append lines that are no rows.

        Args:
            rejects: of a block.
            lines_before: of the file, before the block.
        """
        if len(rejects) and self._rejects is None:
            self._rejects = self._open.enter_context((self._folder / REJECTS).open("wb"))
        for one in rejects:
            told = {
                "file": self._file,
                "line": lines_before + one.line + 1,
                "reason": one.reason,
                "found": one.found,
            }
            text = json.dumps(told, ensure_ascii=False) + "\n"
            self._rejects.write(text.encode(errors="backslashreplace"))  # type: ignore[union-attr]

    def finish(self, rows: int) -> None:
        """Write the headers and close the files."""
        for kind, file in (("dense", self.dense), ("labels", self.labels)):
            file.seek(0)
            file.write(header(kind, rows))
        self._open.close()

    def close(self) -> None:
        """Close the files of a part that failed."""
        with suppress(OSError):
            self._open.close()


def append(file: BinaryIO, values: NDArray[Any]) -> None:
    """Write all of some values, also where the system takes fewer bytes at a time."""
    view = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    while view:
        view = view[os.write(file.fileno(), view) :]
