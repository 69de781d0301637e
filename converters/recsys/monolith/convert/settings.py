"""The settings of a conversion, and what became of the rows of a stream."""

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.frames.framing import COMPRESSIONS, Framing
from ingot.converters.settings import Setting
from ingot.converters.sources.recognizers.monolith import Kind

if TYPE_CHECKING:
    from ingot.converters.recsys.monolith.fid import Version
    from ingot.converters.recsys.monolith.tables.table_file import TableFile

Source = Kind | Literal["parquet"]
Target = Literal["example", "examplebatch", "parquet"]

BATCH_SIZE: Final = 512
_MAX_BATCH_SIZE: Final = 1 << 20
_TEST: Final = re.compile(r"\s*(\d{1,6})\s*(<=|>=|==|!=|<|>)\s*([-+]?[0-9.eE+-]+|[-+]?inf)\s*")
_of_streams = partial(Setting, section="Streams")
_of_rows = partial(Setting, section="Rows")
_names = partial(Setting, metavar="NAME", section="Rows", repeatable=True)
_of_features = partial(Setting, section="Features")
_patterns = partial(Setting, metavar="PATTERN", section="Features", repeatable=True)
_of_tables = partial(Setting, section="Tables")
_FRAMES: Final = (
    "sort_id, kafka_dump, kafka_dump_prefix with commas between; lagrangex_header; none"
)


@dataclass(kw_only=True)
class Counts:
    """What became of the records and rows of streams.

    Rows are those of records that could be read: `rows` = `written` + `filtered` + `rejected_rows`.
    """

    rows: int = 0
    written: int = 0
    batches: int = 0
    early: int = 0
    # unset features that were added where a row lacks what others of its batch have
    filled: int = 0
    lost_sort_ids: int = 0
    lacking: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    rejected_records: int = 0
    rejected_rows: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    # fields that the target has no place for: how many records had them
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Add those of another stream."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True, kw_only=True)
class LabelTest:
    """A test of one label, as `0>=1` says it: position from 0, comparison, value as a float32."""

    position: int
    compare: str
    value: float

    @staticmethod
    def parse(text: str) -> "LabelTest":
        """Return the test that `0>=1` says."""
        import numpy as np

        match = _TEST.fullmatch(text)
        try:
            value = float(np.float32(match[3])) if match else 0.0
        except ValueError:
            match = None
        if match is None:
            hint = "write position, comparison and value: 0>=1"
            raise ConversionError("", f"{text!r} is not a test of a label", hint)
        return LabelTest(position=int(match[1]), compare=match[2], value=value)

    def __str__(self) -> str:
        return f"{self.position}{self.compare}{self.value:g}"


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What a conversion leaves out; `matched` holds the names and patterns that features had."""

    labels: Annotated[
        tuple[LabelTest, ...],
        _of_rows(
            "Keep rows whose label passes this test, such as 0>=1: the first label is at least 1. "
            "Repeatable; all tests must pass.",
            metavar="TEST",
            flag="label",
            repeatable=True,
            parse=LabelTest.parse,
        ),
    ] = ()
    has: Annotated[
        tuple[str, ...], _names("Keep rows in which this feature has a value. Repeatable.")
    ] = ()
    lacks: Annotated[
        tuple[str, ...], _names("Keep rows in which this feature has no value. Repeatable.")
    ] = ()
    negative: Annotated[
        LabelTest,
        _of_rows(
            "Test of a label; rows that pass are negatives.", metavar="TEST", parse=LabelTest.parse
        ),
    ] = field(default_factory=lambda: LabelTest(position=0, compare="<=", value=0.0))
    negative_rate: Annotated[
        float | None,
        _of_rows(
            "Share of the negatives to keep, above 0 and at most 1; their sample_rate is "
            "multiplied by it.",
            metavar="RATE",
        ),
    ] = None
    seed: Annotated[
        int,
        _of_rows("Seed for sampling negatives.", metavar="SEED", minimum=0, maximum=(1 << 64) - 1),
    ] = 0
    features: Annotated[
        tuple[str, ...],
        _patterns(
            "Keep only features whose name matches this pattern, such as user_*. Repeatable.",
            flag="feature",
        ),
    ] = ()
    drop_features: Annotated[
        tuple[str, ...],
        _patterns(
            "Drop features whose name matches this pattern. Repeatable.", flag="drop-feature"
        ),
    ] = ()
    drop_raw: Annotated[bool, _of_features("Drop raw features.")] = False
    drop_unset: Annotated[bool, _of_features("Drop features without a value.")] = False
    matched: set[str] = field(default_factory=set, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.negative_rate is not None and not 0 < self.negative_rate <= 1:
            problem = f"`negative_rate` is {self.negative_rate:g}"
            raise ConversionError("", problem, "it must be above 0 and at most 1")

    @cached_property
    def are_any(self) -> bool:
        """Return whether any row is left out or changed."""
        return self != Filters(seed=self.seed, negative=self.negative)

    def unmatched(self) -> tuple[str, ...]:
        """Return the names and patterns that no feature of the rows so far had."""
        patterns = (*self.has, *self.lacks, *self.features, *self.drop_features)
        return tuple(one for one in patterns if one not in self.matched)


def _read_table(path: str) -> "TableFile":
    from ingot.converters.recsys.monolith.tables.table_file import load_table_file

    return load_table_file(Path(path))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a conversion; `filters` say what is left out."""

    source: Annotated[
        Source,
        Setting(
            "Kind of the input.",
            flag="from",
            choices=("example", "examplebatch", "instance", "parquet"),
        ),
    ]
    target: Annotated[Target, Setting("Kind of the output.", flag="to")]
    framing: Annotated[
        Framing,
        _of_streams(f"Framing of the input: {_FRAMES}.", metavar="FRAMING", parse=Framing.parse),
    ] = field(default_factory=Framing)
    out_framing: Annotated[
        Framing,
        _of_streams(
            "Framing of the output; Monolith reads the default without settings of its own.",
            metavar="FRAMING",
            parse=Framing.parse,
        ),
    ] = field(default_factory=Framing)
    compression: Annotated[
        str | None,
        _of_streams(
            "Compression of the input.",
            choices=COMPRESSIONS,
            default="detected from name and content",
        ),
    ] = None
    out_compression: Annotated[
        str | None,
        _of_streams(
            "Compression of the output.",
            choices=COMPRESSIONS,
            default="by the name of OUT, else none",
        ),
    ] = None
    batch_size: Annotated[
        int,
        _of_streams(
            "Number of rows in an ExampleBatch.", metavar="N", minimum=1, maximum=_MAX_BATCH_SIZE
        ),
    ] = BATCH_SIZE
    shared: Annotated[
        bool,
        _of_streams(
            "Write a feature that is equal in all rows of a batch only once.", negative="no-shared"
        ),
    ] = True
    filters: Filters = field(default_factory=Filters)
    require_line_id: Annotated[
        bool, _of_rows("Reject rows without uid, req_time or sample_rate.", flag="require-lineid")
    ] = False
    skip_bad: Annotated[
        bool,
        Setting(
            "Count records that cannot be used and continue; otherwise the first one stops the "
            "conversion.",
            section="Error handling",
        ),
    ] = False
    table: Annotated[
        "TableFile | None",
        _of_tables(
            "YAML or JSON file that describes the columns of Parquet files (docs/monolith.md).",
            metavar="FILE",
            parse=_read_table,
        ),
    ] = None
    fid: Annotated[
        "Version",
        _of_tables("Layout of fids in columns that do not state it.", choices=("v1", "v2")),
    ] = "v2"

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= _MAX_BATCH_SIZE:
            problem = f"batches of {self.batch_size:,} rows"
            raise ConversionError("", problem, f"write batches of 1 to {_MAX_BATCH_SIZE:,} rows")
        if self.table is not None and self.source != "parquet":
            problem = f"a table file for {self.source} streams"
            raise ConversionError("", problem, "it says what columns of Parquet files are")

    @property
    def is_verbatim(self) -> bool:
        """Return whether Examples are written as they came, in other frames."""
        same = self.source == self.target == "example"
        return same and not self.filters.are_any and not self.require_line_id

    def document(self) -> dict[str, object]:
        """Return the settings as a manifest holds them: what decides the bytes that are written."""
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
