"""Read every part into the work folder: parsed, dense values transformed, ids given, counted."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.output.files import InputStamp
from ingot.converters.progress import raise_if_stopping
from ingot.converters.recsys.criteo.contract import DENSE_NAMES, HEADER, KEYS
from ingot.converters.recsys.criteo.preprocess import raw_lines, work_folder
from ingot.converters.recsys.criteo.preprocess.inputs import Inputs, OpenedPart, Part
from ingot.converters.recsys.criteo.preprocess.row_kernels import BUCKETS, measure_dense
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.vocabulary import Column, finish_column
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
    logged: NotRequired[list[int]]


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
        ones, zeros = int(np.count_nonzero(labels == 1)), int(np.count_nonzero(labels == 0))
        self.labels.update({"0": zeros, "1": ones, "other": len(labels) - ones - zeros})

    def facts(self) -> PartFacts:
        """As the marker of a finished part holds them."""
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
    """A part in stats.json."""
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
    """stats.json."""
    rejects: Counter[str] = Counter()
    for one in facts:
        rejects.update(one["rejects"])
    missing = _add_counts([one["missing"] for one in facts])
    return {
        "rows": sum(one["rows"] for one in facts),
        "lines": sum(one["lines"] for one in facts),
        "rejects": dict(sorted(rejects.items())),
        "parts": list(parts),
        "dense": [_dense_entry(at, facts, missing[at]) for at in range(DENSE)],
        "sparse": [
            {"name": KEYS[at], "missing": missing[DENSE + at], **columns[at]}
            for at in range(SPARSE)
        ],
    }


def _dense_entry(at: int, facts: Sequence[PartFacts], missing: int) -> dict[str, object]:
    histogram = _add_counts([one["histogram"][at] for one in facts])
    bounds = ["negative", "0", *(str(1 << power) for power in range(BUCKETS - 2))]
    return {
        "name": DENSE_NAMES[at],
        "missing": missing,
        "nonfinite": sum(one["nonfinite"][at] for one in facts),
        "min": min((one["least"][at] for one in facts if one["least"]), default=None),
        "max": max((one["most"][at] for one in facts if one["most"]), default=None),
        "sum": sum(one["total"][at] for one in facts),
        "histogram": {name: n for name, n in zip(bounds, histogram, strict=True) if n},
    }


def _add_counts(counts: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*counts, strict=True)]


_ENOUGH: Final = 1_000
"""Rejects without one row after which a file is another than it should be."""

EncodeColumn = Callable[[int, NDArray[np.uint32]], NDArray[np.generic]]
"""What is written for the values of a column (by number), in the order of the rows."""


class PartReader:
    """Reads a part into the work folder."""

    def __init__(
        self,
        part: Part,
        work: work_folder.WorkFolder,
        settings: Settings,
        kind: str,
        encode: EncodeColumn,
        tell: Callable[[int], None],
    ) -> None:
        self._part, self._work, self._settings = part, work, settings
        self._encode, self._tell = encode, tell
        self._counts = PartCounts()
        self._folder = work.fresh_part(part.name)
        self._files = work_folder.PartFiles(self._folder, part.entry.name, kind)

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
        except BaseException:
            self._files.close()
            self._work.forget_part(part.name)
            raise
        if self._settings.dense == "min2" and counts.rows:
            least = int(counts.least.min())
            bad = raw_lines.min2_in_place(self._folder / "dense.npy", counts.rows, HEADER, least)
            counts.nonfinite += bad
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
        groups = min(_GROUPS * self._settings.workers, len(KEYS))
        tasks = [pool.submit(self._write_columns, at, groups, block) for at in range(groups)]
        tasks.append(pool.submit(self._write_dense, block))
        self._files.add_rejects(block.rejects, counts.lines)
        counts.rejects.update(block.rejects.reasons())
        counts.missing += block.missing
        counts.lines += block.lines
        counts.rows += len(block.labels)
        for task in tasks:
            task.result()
        self._tell(len(block.labels))

    def _write_columns(self, first: int, step: int, block: raw_lines.Block) -> None:
        for at in _LONG_FIRST[first::step]:
            work_folder.append_values(self._files.columns[at], self._encode(at, block.sparse[at]))

    def _write_dense(self, block: raw_lines.Block) -> None:
        counts, files = self._counts, self._files
        counts.add_labels(block.labels)
        work_folder.append_values(files.labels, block.labels)
        counts.add_dense(block.dense)
        if self._settings.dense == "min2":
            work_folder.append_values(files.dense, block.dense)
            return
        values = raw_lines.ln3(block.dense)
        counts.nonfinite += raw_lines.count_nonfinite(values)
        work_folder.append_values(files.dense, values)

    def _check(self, block: raw_lines.Block) -> None:
        where, counts = self._part.entry.name, self._counts
        if block.longest > raw_lines.LONGEST:
            raise raw_lines.too_long_error(where)
        if not len(block.rejects):
            return
        first = block.rejects[0]
        line, problem = counts.lines + first.line + 1, raw_lines.PROBLEMS[first.reason]
        said = f"line {line}: {problem}: {first.found}"
        if self._settings.strict:
            raise ConversionError(where, said, "without `strict` it becomes a reject")
        if not counts.rows and counts.lines + block.rejects.leading() >= _ENOUGH:
            said = f"none of the first {_ENOUGH:,} lines can be read; {said}"
            hint = "lines are a label, 13 counts and 26 hexadecimal values between tabs"
            raise ConversionError(where, said, hint)


_GROUPS: Final = 2  # tasks for each thread that the columns of a block are

_LONG_FIRST: Final = tuple(
    sorted(range(len(KEYS)), key=lambda at: at not in (0, 9, 19, 20, 21, 10, 11, 22))
)
"""Columns in the order in which work on them is begun: those with the largest vocabularies."""

_ROWS: Final = 1 << 20

ReportProgress = Callable[[str, int, int], None]
"""Called with a stage, the parts or columns of it that are done, and rows since the last call."""


class ReadPhase:
    """The first two steps of a run: parts are read, columns are finished."""

    def __init__(
        self,
        inputs: Inputs,
        settings: Settings,
        work: work_folder.WorkFolder,
        result: Path,
        tell: ReportProgress,
    ) -> None:
        self._inputs, self._settings = inputs, settings
        self._work, self._result, self._tell = work, result, tell
        self._finished = 0

    def resumed_parts(self) -> int:
        """Parts that a broken-off run read, of files that are what they were."""
        for number, (part, stamp) in enumerate(self._stamp_parts()):
            facts = self._work.facts(_read_step(part))
            if facts is None or facts["stamp"] != stamp:
                return number
        return len(self._inputs.parts)

    def begun(self) -> bool:
        """Whether a broken-off run went on after reading."""
        return any(self._work.facts(_finish_step(key)) is not None for key in KEYS)

    def facts(self) -> list[PartFacts]:
        """What was counted of each part."""
        return [cast("PartFacts", self._work.facts(_read_step(p))) for p in self._inputs.parts]

    def columns(self) -> list[dict[str, int]]:
        """What was counted of each column."""
        return [cast("dict[str, int]", self._work.facts(_finish_step(key))) for key in KEYS]

    def run(self) -> None:
        """Do what is left of both steps."""
        # Parts behind one that is read anew were numbered by maps that are no more.
        self._work.undo(_read_step(part) for part in self._inputs.parts[self.resumed_parts() :])
        if self._settings.encode == "stream":
            self._stream()
        else:
            self._read("raw", lambda at, values: values, lambda: None)
            self._one_by_one()

    def _stamp_parts(self) -> Iterator[tuple[Part, InputStamp]]:
        return zip(self._inputs.parts, self._inputs.stamps(), strict=True)

    def _stream(self) -> None:
        left = [at for at, key in enumerate(KEYS) if self._work.facts(_finish_step(key)) is None]
        if not left:
            return
        done = [part.name for part in self._inputs.parts[: self.resumed_parts()]]
        logged = self.facts()[len(done) - 1]["logged"] if done else [0] * len(KEYS)
        columns = {at: Column(self._work, at, self._settings) for at in left}
        try:
            for at, column in columns.items():
                column.open_log(logged[at])
                for name in done:
                    column.recount(name)
            self._read(
                "ids",
                lambda at, values: columns[at].encode(values),
                lambda: [column.logged() for column in columns.values()],
            )
        finally:
            for column in columns.values():
                column.close()
        for at in left:
            self._finish(columns.pop(at))

    def _read(
        self, kind: str, encode: EncodeColumn, logged: Callable[[], list[int] | None]
    ) -> None:
        taken_up = self.resumed_parts()
        for number, (part, stamp) in enumerate(self._stamp_parts()):
            if number < taken_up:
                continue
            raise_if_stopping()
            tell = partial(self._tell, "read", number)
            facts = PartReader(part, self._work, self._settings, kind, encode, tell).read()
            self._work.sync(self._work.part(part.name))
            self._work.done(_read_step(part), {**facts, "stamp": stamp, "logged": logged()})
            self._tell("read", number + 1, 0)

    def _one_by_one(self) -> None:
        for at, key in enumerate(KEYS):
            if self._work.facts(_finish_step(key)) is None:
                raise_if_stopping()
                column = Column(self._work, at, self._settings)
                column.open_log(0)
                try:
                    for part in self._inputs.parts:
                        self._encode(column, part, at)
                    column.logged()
                finally:
                    column.close()
                self._finish(column)
            work_folder.remove_files(
                self._work.column(part.name, key, "raw") for part in self._inputs.parts
            )
            self._tell("columns", at + 1, 0)

    def _encode(self, column: Column, part: Part, at: int) -> None:
        raw = work_folder.map_values(self._work.column(part.name, column.key, "raw"), np.uint32)
        path = self._work.column(part.name, column.key, "ids")
        with path.open("wb", buffering=0) as file:
            for start in range(0, len(raw), _ROWS):
                values = raw[start : start + _ROWS]
                work_folder.append_values(cast("Any", file), column.encode(values))
                self._tell("columns", at, len(values))
        self._work.sync(path)

    def _finish(self, column: Column) -> None:
        facts = finish_column(column, self._work, self._settings, self._result)
        self._work.done(_finish_step(column.key), facts)
        self._finished += 1
        self._tell("vocabularies", self._finished, 0)


def _read_step(part: Part) -> str:
    return f"read-{part.name}"


def _finish_step(key: str) -> str:
    return f"column-{key}"
