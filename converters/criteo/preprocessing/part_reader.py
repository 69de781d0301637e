"""A part from its raw file to the work folder: parsed, its dense values transformed, ids given."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import KEYS
from ingot.converters.criteo.preprocessing.arrays import HEADER
from ingot.converters.criteo.preprocessing.blocks import LONGEST, blocks, read_ahead, too_long
from ingot.converters.criteo.preprocessing.dense import count_nonfinite, ln3, min2_in_place
from ingot.converters.criteo.preprocessing.inputs import Part, opened
from ingot.converters.criteo.preprocessing.lines import Block, parse_block
from ingot.converters.criteo.preprocessing.part_files import PartFiles, append
from ingot.converters.criteo.preprocessing.settings import Settings
from ingot.converters.criteo.preprocessing.statistics import PartCounts
from ingot.converters.criteo.preprocessing.work import Work
from ingot.converters.errors import ConversionError
from ingot.converters.rows import Json

_ENOUGH: Final = 1_000
"""Rejects without one row after which a file is another than it should be."""

Encode = Callable[[int, NDArray[np.uint32]], NDArray[np.generic]]
"""What is written for the values of a column (by number), in the order of the rows."""


class PartReader:
    """Reads parts into the work folder.

    Args:
        work: the folder.
        settings: what becomes of the lines.
        kind: of the columns that are written, raw | ids.
        encode: makes them; is called by one thread at a time for a column.
        tell: called with the rows of each block.
    """

    def __init__(
        self,
        work: Work,
        settings: Settings,
        kind: str,
        encode: Encode,
        tell: Callable[[int], None],
    ) -> None:
        self._work, self._settings, self._kind = work, settings, kind
        self._encode, self._tell = encode, tell

    def read(self, part: Part) -> dict[str, Json]:
        """Read a part; its facts, with the file's `sha256`.

        Raises:
            SourceError: it cannot be read, or is no such file.
            ConversionError: a line is a reject, where none may be.
        """
        counts = PartCounts()
        folder = self._work.fresh_part(part.name)
        files = PartFiles(folder, part.entry.name, self._kind)
        try:
            with opened(part) as source, ThreadPoolExecutor(1, "read") as reader:
                pieces = blocks(source.stream, self._settings.block_bytes, part.entry.name)
                self._pump(part, read_ahead(pieces, reader), files, counts)
                sha256 = source.sha256()
            files.finish(counts.rows)
        except BaseException:
            files.close()
            self._work.forget_part(part.name)
            raise
        if self._settings.dense == "min2" and counts.rows:
            least = int(counts.dense.least.min())
            bad = min2_in_place(folder / "dense.npy", counts.rows, HEADER, least)
            counts.dense.nonfinite += bad
        return {**counts.facts(), "sha256": sha256}

    def _pump(
        self,
        part: Part,
        texts: Iterator[NDArray[np.uint8]],
        files: PartFiles,
        counts: PartCounts,
    ) -> None:
        """Parse blocks in several threads, take them in order."""
        workers = self._settings.workers
        with ThreadPoolExecutor(workers, "parse") as pool:
            waiting: deque[Future[Block]] = deque()
            try:
                for text in texts:
                    waiting.append(pool.submit(parse_block, text, labelled=part.labelled))
                    if len(waiting) > workers:
                        self._take(part, waiting.popleft().result(), files, counts, pool)
                while waiting:
                    self._take(part, waiting.popleft().result(), files, counts, pool)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _take(
        self,
        part: Part,
        block: Block,
        files: PartFiles,
        counts: PartCounts,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._check(part, block, counts)
        tasks = [pool.submit(self._write_column, at, block, files) for at in _LONG_FIRST]
        tasks.append(pool.submit(self._write_dense, block, files, counts))
        files.add_rejects(block.rejects, counts.lines)
        counts.rejects.update(block.rejects.reasons())
        counts.missing += block.missing
        counts.lines += block.lines
        counts.rows += len(block.labels)
        for task in tasks:
            task.result()
        self._tell(len(block.labels))

    def _write_column(self, at: int, block: Block, files: PartFiles) -> None:
        append(files.columns[at], self._encode(at, block.sparse[at]))

    def _write_dense(self, block: Block, files: PartFiles, counts: PartCounts) -> None:
        counts.add_labels(block.labels)
        append(files.labels, block.labels)
        counts.dense.add(block.dense)
        if self._settings.dense == "min2":
            append(files.dense, block.dense)
            return
        values = ln3(block.dense)
        counts.dense.nonfinite += count_nonfinite(values)
        append(files.dense, values)

    def _check(self, part: Part, block: Block, counts: PartCounts) -> None:
        where = part.entry.name
        if block.longest > LONGEST:
            raise too_long(where)
        if not len(block.rejects):
            return
        first = block.rejects[0]
        said = f"line {counts.lines + first.line + 1}: {PROBLEMS[first.reason]}: {first.found}"
        if self._settings.strict:
            raise ConversionError(where, said, "without --strict it becomes a reject")
        if not counts.rows and counts.lines + block.rejects.leading() >= _ENOUGH:
            said = f"none of the first {_ENOUGH:,} lines can be read; {said}"
            hint = "lines are a label, 13 counts and 26 hexadecimal values between tabs"
            raise ConversionError(where, said, hint)


PROBLEMS: Final = {
    "columns": "not 40 columns (39 without a label)",
    "label": "no whole number of 32 bits",
    "dense": "no whole number of 32 bits",
    "sparse": "no hexadecimal number of 32 bits",
}
_LONG_FIRST: Final = tuple(
    sorted(range(len(KEYS)), key=lambda at: at not in (0, 9, 19, 20, 21, 10, 11, 22))
)
"""Columns in the order in which work on them is begun: those with the largest vocabularies."""
