"""What became of the rows of a stream.

How a conversion goes.
"""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.convert.filters import Filters
from ingot.converters.recsys.monolith.fid import Version
from ingot.converters.recsys.monolith.frames.framing import Framing
from ingot.converters.recsys.monolith.tables.table_file import TableFile
from ingot.converters.rows import Json
from ingot.converters.sources.recognizers.monolith import Kind


@dataclass(kw_only=True)
class Counts:
    """What became of the records and rows of streams.

    Rows are those of records that could be read: `rows` = `written` + `filtered` + `rejected_rows`.

    Attributes:
        rows: read.
        written: rows that were written.
        batches: ExampleBatches that were written.
        early: batches that ended before they were full.
        filled: unset features that were added where a row lacks what others of its batch have.
        lost_sort_ids: rows whose sort_id their batch has not.
        lacking: rows whose LineId lacks uid, req_time or sample_rate.
        filtered: rows that were left out, by reason.
        rejected_records: records that could not be used.
        rejected_rows: rows of the others that could not.
        rejects: both, by reason.
        lost: fields that the target has no place for: how many records had them.
    """

    rows: int = 0
    written: int = 0
    batches: int = 0
    early: int = 0
    filled: int = 0
    lost_sort_ids: int = 0
    lacking: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    rejected_records: int = 0
    rejected_rows: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Add those of another stream."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def document(self) -> dict[str, Json]:
        """As manifests and `--json` have them."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }


Source = Kind | Literal["parquet"]
Target = Literal["example", "examplebatch", "parquet"]

BATCH_SIZE: Final = 512
_MAX_BATCH_SIZE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a conversion goes.

    Attributes:
        source: what is read.
        target: what is written.
        framing: of the streams that are read.
        out_framing: of those that are written.
        compression: of the streams that are read; None: told by name and content.
        out_compression: of those that are written; None: by a file's name, else none.
        batch_size: rows of an ExampleBatch.
        shared: whether a list becomes SHARED where all rows of a batch are equal.
        filters: what is left out.
        require_line_id: reject rows whose LineId lacks uid, req_time or sample_rate.
        skip_bad: count what cannot be used and go on; else the first ends the conversion.
        table: what the columns of a table are; None: by their metadata, names and types.
        fid: the version of fids whose column does not say it.
    """

    source: Source
    target: Target
    framing: Framing = field(default_factory=Framing)
    out_framing: Framing = field(default_factory=Framing)
    compression: str | None = None
    out_compression: str | None = None
    batch_size: int = BATCH_SIZE
    shared: bool = True
    filters: Filters = field(default_factory=Filters)
    require_line_id: bool = False
    skip_bad: bool = False
    table: TableFile | None = None
    fid: Version = "v2"

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= _MAX_BATCH_SIZE:
            problem = f"batches of {self.batch_size:,} rows"
            raise ConversionError("", problem, f"write batches of 1 to {_MAX_BATCH_SIZE:,} rows")
        if self.table is not None and self.source != "parquet":
            problem = f"a table file for {self.source} streams"
            raise ConversionError("", problem, "it says what columns of Parquet files are")

    @property
    def is_verbatim(self) -> bool:
        """Whether Examples are written as they came, in other frames."""
        same = self.source == self.target == "example"
        return same and not self.filters.are_any and not self.require_line_id

    def document(self) -> dict[str, Json]:
        """As a manifest holds it: what decides the bytes that are written."""
        filters = dataclasses.asdict(self.filters)
        del filters["matched"]
        filters["labels"] = [str(test) for test in self.filters.labels]
        filters["negative"] = str(self.filters.negative)
        return {
            "from": self.source,
            "to": self.target,
            "framing": str(self.framing),
            "out_framing": None if self.target == "parquet" else str(self.out_framing),
            "compression": self.compression,
            "out_compression": self.out_compression,
            "batch_size": self.batch_size if self.target == "examplebatch" else None,
            "shared": self.shared if self.target == "examplebatch" else None,
            "filters": filters if self.filters.are_any else None,
            "require_line_id": self.require_line_id,
            "skip_bad": self.skip_bad,
            "table": dataclasses.asdict(self.table) | {"where": None} if self.table else None,
            "fid": self.fid if self.source == "parquet" else None,
        }
