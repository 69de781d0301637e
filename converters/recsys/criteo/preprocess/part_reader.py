"""Read a part into a folder: lines parsed, dense values transformed, everything counted."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.output.files import InputStamp
from ingot.converters.recsys.criteo.contract import DENSE_NAMES, HEADER, KEYS
from ingot.converters.recsys.criteo.preprocess import raw_lines
from ingot.converters.recsys.criteo.preprocess.inputs import OpenedPart, Part
from ingot.converters.recsys.criteo.preprocess.part_files import PartFiles, append_values
from ingot.converters.recsys.criteo.preprocess.row_kernels import BUCKETS, measure_dense
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.rows import read_ahead
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE

_INT64: Final = np.iinfo(np.int64)


class PartFacts(TypedDict):
    """What was counted of a part, as the marker of the finished part holds it."""

    rows: int
    lines: int
    rejects: dict[str, int]
    labels: dict[str, int]
    nonfinite: list[int]
    missing: list[int]
    least: list[int] | None
    most: list[int] | None
    total: list[int]
    histogram: list[list[int]]
    sha256: NotRequired[str]
    stamp: NotRequired[InputStamp]


class PartCounts:
    """What was counted of a part; of raw dense values by column."""

    def __init__(self) -> None:
        self.rows = self.lines = 0
        self.rejects, self.labels = Counter[str](), Counter[str]()
        self.missing = np.zeros(DENSE + SPARSE, np.int64)
        self.least, self.most = np.full(DENSE, _INT64.max), np.full(DENSE, _INT64.min)
        self.total, self.nonfinite = np.zeros(DENSE, np.int64), np.zeros(DENSE, np.int64)
        self.histogram = np.zeros((DENSE, BUCKETS), np.int64)

    def add_dense(self, raw: NDArray[np.int32]) -> None:
        """Measure values; int32[R, 13]."""
        measure_dense(raw, self.least, self.most, self.total, self.histogram)

    def add_labels(self, labels: NDArray[np.int32]) -> None:
        """Count labels; int32[R]."""
        positives, negatives = (
            int(np.count_nonzero(labels == 1)),
            int(np.count_nonzero(labels == 0)),
        )
        self.labels.update(
            {"0": negatives, "1": positives, "other": len(labels) - positives - negatives}
        )

    def facts(self) -> PartFacts:
        """Return the facts as the marker of a finished part holds them."""
        return {
            "rows": self.rows,
            "lines": self.lines,
            "rejects": dict(sorted(self.rejects.items())),
            "labels": {name: self.labels[name] for name in ("0", "1", "other")},
            "nonfinite": self.nonfinite.tolist(),
            "missing": self.missing.tolist(),
            "least": self.least.tolist() if self.rows else None,
            "most": self.most.tolist() if self.rows else None,
            "total": self.total.tolist(),
            "histogram": self.histogram.tolist(),
        }


def part_entry(name: str, file: str, facts: PartFacts, *, shuffled: bool) -> dict[str, object]:
    """Return the entry of a part in stats.json."""
    return {
        "name": name,
        "file": file,
        "lines": facts["lines"],
        "rows": facts["rows"],
        "rejects": facts["rejects"],
        "labels": facts["labels"],
        "nonfinite": sum(facts["nonfinite"]),
        "dense_min": min(facts["least"]) if facts["least"] else None,
        "shuffled": shuffled,
    }


def stats_document(
    parts: Sequence[dict[str, object]],
    facts: Sequence[PartFacts],
    columns: Sequence[dict[str, int]],
) -> dict[str, object]:
    """Return the content of stats.json."""
    rejects: Counter[str] = Counter()
    for one in facts:
        rejects.update(one["rejects"])
    missing = _add_counts([one["missing"] for one in facts])
    return {
        "rows": sum(one["rows"] for one in facts),
        "lines": sum(one["lines"] for one in facts),
        "rejects": dict(sorted(rejects.items())),
        "parts": list(parts),
        "dense": [_dense_entry(column, facts, missing[column]) for column in range(DENSE)],
        "sparse": [
            {"name": KEYS[column], "missing": missing[DENSE + column], **columns[column]}
            for column in range(SPARSE)
        ],
    }


def _dense_entry(column: int, facts: Sequence[PartFacts], missing: int) -> dict[str, object]:
    histogram = _add_counts([one["histogram"][column] for one in facts])
    bounds = ["negative", "0", *(str(1 << power) for power in range(BUCKETS - 2))]
    return {
        "name": DENSE_NAMES[column],
        "missing": missing,
        "nonfinite": sum(one["nonfinite"][column] for one in facts),
        "min": min((one["least"][column] for one in facts if one["least"]), default=None),
        "max": max((one["most"][column] for one in facts if one["most"]), default=None),
        "sum": sum(one["total"][column] for one in facts),
        "histogram": {name: n for name, n in zip(bounds, histogram, strict=True) if n},
    }


def _add_counts(counts: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*counts, strict=True)]


_ENOUGH: Final = 1_000
"""Rejects without one row after which a file is another than it should be."""


class PartReader:
    """Reads a part into a folder."""

    def __init__(
        self, part: Part, folder: Path, settings: Settings, report: Callable[[int], object]
    ) -> None:
        self._part, self._folder, self._settings, self._tell = part, folder, settings, report
        self._counts = PartCounts()
        self._files = PartFiles(folder, part.entry.name)

    def read(self) -> PartFacts:
        """Read the part; its facts, with the file's `sha256`."""
        part, counts = self._part, self._counts
        try:
            with part.entry.place.open() as raw, ThreadPoolExecutor(1, "read") as reader:
                source = OpenedPart(raw, part.entry.name)
                pieces = raw_lines.read_blocks(
                    source.stream, self._settings.block_bytes, part.entry.name
                )
                self._pump(read_ahead(pieces, reader))
                sha256 = source.sha256()
            self._files.finish(counts.rows)
        finally:
            self._files.close()
        if self._settings.dense == "min2" and counts.rows:
            minimum = int(counts.least.min())
            nonfinite = raw_lines.min2_in_place(
                self._folder / "dense.npy", counts.rows, HEADER, minimum
            )
            counts.nonfinite += nonfinite
        facts: PartFacts = {**counts.facts(), "sha256": sha256}
        return facts

    def _pump(self, texts: Iterator[NDArray[np.uint8]]) -> None:
        """Parse blocks in several threads, take them in order."""
        workers = self._settings.workers
        with ThreadPoolExecutor(workers, "parse") as pool:
            waiting: deque[Future[raw_lines.Block]] = deque()
            try:
                for text in texts:
                    waiting.append(
                        pool.submit(raw_lines.parse_block, text, labelled=self._part.labelled)
                    )
                    if len(waiting) > workers:
                        self._take(waiting.popleft().result(), pool)
                while waiting:
                    self._take(waiting.popleft().result(), pool)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _take(self, block: raw_lines.Block, pool: ThreadPoolExecutor) -> None:
        self._check(block)
        counts = self._counts
        writes = (self._write_sparse, self._write_dense)
        tasks = [pool.submit(write, block) for write in writes]
        self._files.add_rejects(block.rejects, counts.lines)
        counts.rejects.update(block.rejects.reasons())
        counts.missing += block.missing
        counts.lines += block.lines
        counts.rows += len(block.labels)
        for task in tasks:
            task.result()
        self._tell(len(block.labels))

    def _write_sparse(self, block: raw_lines.Block) -> None:
        for file, values in zip(self._files.columns, block.sparse, strict=True):
            append_values(file, values)

    def _write_dense(self, block: raw_lines.Block) -> None:
        counts, files = self._counts, self._files
        counts.add_labels(block.labels)
        append_values(files.labels, block.labels)
        counts.add_dense(block.dense)
        if self._settings.dense == "min2":
            append_values(files.dense, block.dense)
            return
        values = raw_lines.ln3(block.dense)
        counts.nonfinite += raw_lines.count_nonfinite(values)
        append_values(files.dense, values)

    def _check(self, block: raw_lines.Block) -> None:
        path, counts = self._part.entry.name, self._counts
        if block.longest > raw_lines.LONGEST:
            raise raw_lines.too_long_error(path)
        if not len(block.rejects):
            return
        first = block.rejects[0]
        line, problem = counts.lines + first.line + 1, raw_lines.PROBLEMS[first.reason]
        description = f"line {line}: {problem}: {first.found}"
        if self._settings.strict:
            raise ConversionError(path, description, "without `strict` it becomes a reject")
        if not counts.rows and counts.lines + block.rejects.leading() >= _ENOUGH:
            description = f"none of the first {_ENOUGH:,} lines can be read; {description}"
            hint = "lines are a label, 13 counts and 26 hexadecimal values between tabs"
            raise ConversionError(path, description, hint)
