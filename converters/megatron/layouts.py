"""What a build reads out of its files: columns of texts, or unified records; what serves as such.

A file that does not serve is a `SourceError` that names it; the file counts as failed then.
"""

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.megatron.units import InputFile, opened
from ingot.converters.records import kind_of_schema, read_batches
from ingot.converters.rows import Json

TEXT_COLUMNS: Final = ("text", "content", "doc")
_SHOWN: Final = 20  # columns in an error
_SHOWN_CHARS: Final = 80  # of each
_SAID_CHARS: Final = 300

InputKind: TypeAlias = Literal["raw", "pt", "sft"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What is read out of every file.

    Attributes:
        kind: texts of raw columns, or unified records.
        columns: names of the columns.
    """

    kind: InputKind
    columns: tuple[str, ...]

    def to_document(self) -> dict[str, Json]:
        """As JSON."""
        return {"kind": self.kind, "columns": list(self.columns)}

    @staticmethod
    def from_document(document: dict[str, Json]) -> "Layout":
        """The layout of such a document."""
        return Layout(kind=document["kind"], columns=tuple(document["columns"]))


_RECORDS: Final[dict[str, Layout]] = {
    "pt": Layout(kind="pt", columns=("text",)),
    "sft": Layout(kind="sft", columns=("messages", "system", "tools")),
}


def find_layout(files: Sequence[InputFile], text_cols: tuple[str, ...] | None) -> Layout:
    """What to read, by the first file that serves: unified records, or columns that are texts.

    Raises:
        SourceError: no file serves; what is wrong with the first.
    """
    first: SourceError | None = None
    for file in files:
        try:
            return _layout(file, text_cols)
        except SourceError as error:
            first = first or error
    raise first or SourceError("", "no file to read")


def _layout(file: InputFile, text_cols: tuple[str, ...] | None) -> Layout:
    check_same(file)
    if file.path.suffix == ".jsonl":
        return _records(_jsonl_kind(file), text_cols, file)
    with readable(file), opened(file) as source, pq.ParquetFile(source) as parquet:
        schema = parquet.schema_arrow
    kind = kind_of_schema(schema)
    if kind is not None:
        return _records(kind, text_cols, file)
    columns = text_cols or _likely(schema, file)
    _check_columns(schema, columns, file)
    return Layout(kind="raw", columns=columns)


def _records(kind: InputKind, text_cols: tuple[str, ...] | None, file: InputFile) -> Layout:
    if text_cols and (kind, text_cols) != ("pt", ("text",)):
        raise SourceError(
            str(file.path), "holds unified records, whose text is known", "leave --text-cols out"
        )
    return _RECORDS[kind]


def _jsonl_kind(file: InputFile) -> InputKind:
    with readable(file):
        batch = next(read_batches([file.path], rows=1), None)
    if batch is None:
        raise SourceError(str(file.path), "holds no record", "take it out, or see to it")
    return "sft" if "messages" in batch.schema.names else "pt"


def _likely(schema: pa.Schema, file: InputFile) -> tuple[str, ...]:
    """The column that most likely holds the texts; of two alike, the one spelled as wanted."""
    texts = [field.name for field in schema if _is_text(field.type)]
    for wanted in TEXT_COLUMNS:
        alike = [name for name in texts if name.lower() == wanted]
        if alike:
            return (wanted if wanted in alike else alike[0],)
    wanted = ", ".join(TEXT_COLUMNS[:-1])
    problem = f"has no column of texts named {wanted} or {TEXT_COLUMNS[-1]} (it has {_has(schema)})"
    raise SourceError(str(file.path), problem, "name the columns: --text-cols")


def _has(schema: pa.Schema) -> str:
    shown = ", ".join(
        f"{field.name!r}: {field.type}"[:_SHOWN_CHARS] for field in list(schema)[:_SHOWN]
    )
    return f"{shown}, ..." if len(schema) > _SHOWN else shown or "none"


def _check_columns(schema: pa.Schema, columns: Sequence[str], file: InputFile) -> None:
    for name in columns:
        found = schema.get_all_field_indices(name)
        if not found:
            problem = f"has no column {name!r} (it has {_has(schema)})"
            raise SourceError(str(file.path), problem, "see --text-cols")
        if len(found) > 1:
            problem = f"has {len(found)} columns {name!r}"
            raise SourceError(str(file.path), problem, "give them names of their own")
        kind = schema.field(found[0]).type
        if not _is_text(kind):
            problem = f"column {name!r} is {str(kind)[:_SHOWN_CHARS]}, not text"
            raise SourceError(str(file.path), problem, "see --text-cols")


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    checks: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_null,
    )
    return any(check(kind) for check in checks)


@contextmanager
def readable(file: InputFile) -> Iterator[None]:
    """Translate what the readers say about a file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise _unreadable(file, "a name in it is no UTF-8") from error
    except (pa.ArrowException, OSError) as error:
        # The operating system's own errors carry a number; Arrow's do not.
        raise _unreadable(file, getattr(error, "strerror", None) or str(error)) from error
    except ConversionError as error:
        raise SourceError(error.where, error.problem, error.hint) from error


def _unreadable(file: InputFile, said: str) -> SourceError:
    problem = f"cannot be read: {' '.join(said.split())[:_SAID_CHARS]}"
    return SourceError(str(file.path), problem, "mend it or take it out")


def check_same(file: InputFile) -> None:
    """See that a file is what it was when it was listed.

    Raises:
        SourceError: it has changed, or is no file that can be read.
    """
    with readable(file):
        facts = file.path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise _unreadable(file, "it is no regular file")
    if (facts.st_size, facts.st_mtime_ns) != (file.bytes, file.mtime_ns):
        raise SourceError(str(file.path), "changed while it was to be read", "start again")


def check_fits(schema: pa.Schema, layout: Layout, file: InputFile) -> None:
    """See that a Parquet file holds what is read out of every one.

    Raises:
        SourceError: it does not.
    """
    kind = kind_of_schema(schema) or "raw"
    if kind != layout.kind:
        names = {"raw": "no unified records", "pt": "PT records", "sft": "SFT records"}
        raise SourceError(
            str(file.path),
            f"holds {names[kind]}, the first file {names[layout.kind]}",
            "build one data set of each kind",
        )
    if kind == "raw":
        _check_columns(schema, layout.columns, file)
