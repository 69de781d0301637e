"""All streams of a conversion, to wherever they go."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ingot.converters.errors import SourceError
from ingot.converters.job import Progress, Watch
from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.converting.settings import Settings
from ingot.converters.monolith.converting.stream import Reject, Stream
from ingot.converters.monolith.converting.tables import Table, scanned
from ingot.converters.monolith.streams import Input, Inputs
from ingot.converters.rows import Json

OutOf = Callable[[Input], BinaryIO]
"""Where a stream goes; what it gave is done with when the next is asked for."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of one stream."""

    file: Input
    counts: Counts
    first_bad: SourceError | None = None

    def document(self) -> dict[str, Json]:
        """As manifests and `--json` have it."""
        return {"name": self.file.name} | self.counts.document()


def _done(file: Input, stream: Stream) -> Done:
    return Done(file=file, counts=stream.counts, first_bad=stream.first_bad)


def check_anything(done: list[Done]) -> None:
    """See that not everything was bad.

    Raises:
        SourceError: it was.
    """
    counts = total(done)
    first = next((one.first_bad for one in done if one.first_bad), None)
    if first is None or counts.written or counts.filtered:
        return
    rejects = sum(counts.rejects.values())
    problem = f"nothing in it can be used, {rejects:,} rejects; the first: {first.problem}"
    raise SourceError(first.where, problem, "say what it is: --from, --framing, --compression")


def total(done: list[Done]) -> Counts:
    """The counts of all streams."""
    counts = Counts()
    for one in done:
        counts.add(one.counts)
    return counts


class Run:
    """Converts streams one after the other.

    Attributes:
        reordered: rows whose features tables have in another order.
    """

    def __init__(self, inputs: Inputs, settings: Settings, watch: Watch) -> None:
        self._inputs, self._settings, self._watch = inputs, settings, watch
        self._stage, self._files, self._rows = "convert", 0, 0
        self.reordered = 0

    def write(self, out_of: OutOf, compression: str, rejects: BinaryIO | None) -> list[Done]:
        """Write every stream; `rejects` gets a line for what is bad.

        Raises:
            SourceError: see `Stream.write`.
            ParametersError: a table's columns are not what they should be.
            ConversionError: a package is missing, or a table would have too many columns.
        """
        reject = _lines_to(rejects)
        if self._settings.target == "parquet":
            return self._write_tables(out_of, reject)
        done = []
        for file in self._files_in("convert"):
            stream = Stream(file, self._settings, reject, self._tell)
            stream.write(out_of(file), compression)
            done.append(_done(file, stream))
        check_anything(done)
        return done

    def _write_tables(self, out_of: OutOf, reject: Reject) -> list[Done]:
        """Tables have one schema, so that all streams are looked at before the first is written."""
        looked_at = (
            Stream(file, self._settings, lambda _: None, self._tell).rows()
            for file in self._files_in("look")
        )
        schema, reordered = scanned(looked_at)
        done = []
        for file in self._files_in("convert"):
            stream = Stream(file, self._settings, reject, self._tell)
            stream.write_to(Table(out_of(file), schema, stream.counts))
            done.append(_done(file, stream))
        self.reordered = reordered
        check_anything(done)
        return done

    def _files_in(self, stage: str) -> Iterator[Input]:
        self._stage, self._rows = stage, 0
        for number, file in enumerate(self._inputs.files):
            self._files = number
            yield file

    def unmatched(self) -> tuple[str, ...]:
        """Names and patterns of filters that no feature has."""
        return self._settings.filters.unmatched()

    def _tell(self, rows: int) -> None:
        self._rows += rows
        self._watch(
            Progress(
                stage=self._stage,
                shards_done=self._files,
                shards=len(self._inputs.files),
                rows=self._rows,
                records=self._rows,
            )
        )


def _lines_to(rejects: BinaryIO | None) -> Reject:
    def write(reject: dict[str, Json]) -> None:
        if rejects is not None:
            rejects.write(json.dumps(reject).encode() + b"\n")

    return write
