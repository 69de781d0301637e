"""The settings of a conversion, some of which runs and lakes have too."""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from ingot.converters.errors import ConversionError, OutputError, redact_urls
from ingot.converters.output.sharding import RayAddress, RunnerName, Shard, Spread
from ingot.converters.records import RecordFormat
from ingot.converters.settings import Setting, existing_tokenizer

OUTPUT: Final = "Output"


def check_store_options(url: str, records: RecordFormat, tokenizer: str | None) -> None:
    """See that a result with these options can be written to an object store.

    Raises OutputError.
    """
    destination = redact_urls(url)
    if tokenizer is not None:
        hint = "leave the tokenizer out, and then run `tokens build` with the URL of the records"
        raise OutputError(destination, "tokens are not written to an object store", hint)
    if records == "delta":
        hint = "write them as parquet, or to a local folder"
        raise OutputError(destination, "Delta tables are not written to an object store", hint)


def language_code(text: str) -> str:
    """Return an ISO 639-1 code, or `mix`."""
    from ingot.converters.sources.documents.kinds import ISO_639_1

    if text == "mix" or text in ISO_639_1:
        return text
    raise ValueError(f"{text!r} is neither an ISO 639-1 code (zh, en, ...) nor mix")


def source_format(text: str) -> str:
    """Return the name of a format that is read."""
    from ingot.converters.sources.facts import FORMATS

    if text in FORMATS:
        return text
    raise ValueError(f"no format {text!r}; there are: {', '.join(FORMATS)}")


def read_counts(text: str) -> dict[str, int]:
    """Return the counts of a text such as `media=100,passed_over=3`."""
    pairs = (item.partition("=") for item in text.split(","))
    return {name.strip(): int(count) for name, _, count in pairs}


def _counts_text(text: str) -> str:
    read_counts(text)
    return text


Tokenizer: TypeAlias = Annotated[
    str | None,
    Setting(
        "Also write Megatron .bin/.idx files with this tokenizer: tokenizer.json, .model, "
        "a folder of one, or hf://REPO.",
        metavar="T",
        section=OUTPUT,
        parse=existing_tokenizer,
    ),
]
Records: TypeAlias = Annotated[
    RecordFormat,
    Setting(
        "Format of the records; delta = Parquet with the log of a Delta table.", section=OUTPUT
    ),
]
Language: TypeAlias = Annotated[
    str | None,
    Setting(
        "Value of meta.language if the mapping does not set it: ISO 639-1 code, or mix.",
        metavar="CODE",
        parse=language_code,
    ),
]
SourceName: TypeAlias = Annotated[
    str | None,
    Setting(
        "Value of meta.source if the mapping does not set it: a name, not a path.",
        metavar="NAME",
        flag="source",
        default="name of SOURCE",
    ),
]
SourceFormat: TypeAlias = Annotated[
    str | None,
    Setting(
        "Format of the files, as source.format of a mapping: jsonl, csv, ...; document reads each "
        "file as one text (Markdown, HTML, notebooks, code).",
        metavar="FORMAT",
        parse=source_format,
        default="detected, or what the mapping states",
    ),
]
SourceQuery: TypeAlias = Annotated[
    str | None,
    Setting(
        "Rows of a database (SQLite, DuckDB, PostgreSQL, MySQL), as source.query of a mapping: one "
        "SELECT with ORDER BY of a unique key.",
        metavar="SELECT",
        default="each table, or what the mapping states",
    ),
]
Limit: TypeAlias = Annotated[
    int | None, Setting("Convert only the first N rows.", metavar="N", section=OUTPUT, minimum=1)
]
ApproveCounts: TypeAlias = Annotated[
    str | None,
    Setting(
        "Approve the counts with which gates on all rows stopped this conversion (its message "
        "names them): its parts are committed.",
        metavar="GATE=ROWS[,...]",
        section=OUTPUT,
        parse=_counts_text,
    ),
]
Overwrite: TypeAlias = Annotated[bool, Setting("Replace an existing result.", section=OUTPUT)]


WorkerCount: TypeAlias = Annotated[
    int | None,
    Setting(
        "Number of converting processes; the output does not depend on it.",
        metavar="N",
        section=OUTPUT,
        minimum=1,
        default="cores, at most one for each shard of the input",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """The settings of a conversion."""

    records: Records = "parquet"
    language: Language = None
    source_name: SourceName = None
    limit: Limit = None
    tokenizer: Tokenizer = None
    overwrite: Overwrite = False
    workers: WorkerCount = None
    shard: Shard = None
    runner: RunnerName = "processes"
    ray_address: RayAddress = None

    @property
    def spread(self) -> Spread:
        """Return who does the shards."""
        return Spread(
            runner=self.runner,
            workers=self.workers,
            shard=self.shard,
            ray_address=self.ray_address,
        )

    def check_shard(self) -> None:
        """Refuse what only a run over all rows can do. Raises ConversionError."""
        clashing = [one for one in ("limit", "tokenizer") if getattr(self, one) is not None]
        if self.shard is not None and clashing:
            hint = "convert all rows; then build tokens of the records"
            raise ConversionError("", f"`{clashing[0]}` does not go with `shard`", hint)
