"""How a conversion goes."""

import dataclasses
from dataclasses import dataclass, field
from typing import Final, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.monolith.contract import Kind
from ingot.converters.monolith.fid import Version
from ingot.converters.monolith.filters import Filters
from ingot.converters.monolith.framing.framing import Framing
from ingot.converters.monolith.tables.table_file import TableFile
from ingot.converters.rows import Json

Source = Kind | Literal["parquet"]
Target = Literal["example", "examplebatch", "parquet"]

BATCH_SIZE: Final = 512
_MOST: Final = 1 << 20


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
        if not 1 <= self.batch_size <= _MOST:
            problem = f"batches of {self.batch_size:,} rows"
            raise ConversionError("", problem, f"write batches of 1 to {_MOST:,} rows")
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
