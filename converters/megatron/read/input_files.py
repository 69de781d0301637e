"""List the files that a token build reads, the units they make, and what is read of them."""

import fnmatch
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pyarrow as pa

from ingot.converters.columnar.parquet import ParquetFile, open_parquet
from ingot.converters.errors import ConversionError, SourceError, StorageError
from ingot.converters.records.readers import kind_of_schema, read_batches

if TYPE_CHECKING:
    from ingot.converters.sources.storage.listing import Place


def name_to_text(name: str | Path) -> str:
    """Return a name or path as text with one character for each of its bytes."""
    return os.fsencode(name).decode("latin-1")


def text_to_name(text: str) -> str:
    """Return the name or path of which `name_to_text` made the text."""
    return os.fsdecode(text.encode("latin-1"))


UNIT_BYTES: Final = 64 << 20  # compressed; larger files are cut between row groups
_COPY_BYTES: Final = 8 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file to be read."""

    name: str  # relative to the input folder, with `/`; names it in the results
    path: Path
    bytes: int
    mtime_ns: int  # when it was changed last, nanoseconds since 1970
    inode: tuple[int, int] = (0, 0)  # its number and when it was changed last
    stored: "Place | None" = None  # where it is if not on this machine, see `fetch_input`
    etag: str | None = None  # the store's own mark of its content
    problem: str = ""  # why it cannot be read, where that is known


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A piece of work, done as a whole or not at all."""

    number: int  # its place in the plan
    file: int
    row_groups: tuple[int, int] | None  # the row groups from, and up to; None = all of the file
    first_row: int  # number of its first row in the file
    bytes: int  # of the file, its share


def scan(folder: Path, pattern: str = "*.parquet", *, recursive: bool = True) -> list[InputFile]:
    """The files under a folder whose name fits a glob, sorted by their relative path.

    A pattern with a `/` is compared with the relative path. Hidden files and folders, and folders
    that are links, are left out. A file given in place of the folder is taken whatever the pattern.
    A file that cannot be looked at is among them: it fails when it is to be read.

    Raises:
        SourceError: no such folder, or no file in it fits.
    """
    if folder.is_file():
        return [_stamp_file(folder.name, folder)]
    if not folder.is_dir():
        raise SourceError(str(folder), "no such folder", "name an existing one")
    names = match_names(_list_names(folder, recursive), str(folder), pattern, recursive=recursive)
    return [_stamp_file(name, folder / name) for name in names]


def match_names(
    names: Iterable[str], folder: str, pattern: str, *, recursive: bool = True
) -> list[str]:
    """Return the sorted names below a place that `scan` takes. Raises SourceError if none fits."""
    name_pattern, by_path = pattern.removeprefix("./"), "/" in pattern
    matching = sorted(
        name
        for name in names
        if fnmatch.fnmatchcase(name if by_path else name.rpartition("/")[2], name_pattern)
        and not any(part.startswith(".") for part in name.split("/"))
        and (recursive or "/" not in name)
    )
    if not matching:
        searched = "in it or its folders" if recursive else "in it"
        problem = f"no file {searched} fits {pattern!r}"
        raise SourceError(folder, problem, "state a pattern, such as '*.parquet'")
    return matching


def _list_names(folder: Path, recursive: bool) -> Iterator[str]:
    def stop(error: OSError) -> None:
        problem = f"cannot be listed: {error.strerror or error}"
        raise SourceError(str(error.filename), problem, "check its permissions") from error

    for root, folders, names in os.walk(folder, onerror=stop):
        folders[:] = sorted(one for one in folders if recursive and not one.startswith("."))
        relative = Path(root).relative_to(folder)
        yield from ((relative / name).as_posix() for name in names if not name.startswith("."))


def fetch_input(file: InputFile, target: Path) -> InputFile:
    """Copy a file of a store to a path of this machine, if it is not on it.

    What cannot be read fails when it is read, as a local file does. Raises StorageError, where the
    store cannot be reached.
    """
    if file.stored is None:
        return file
    try:
        with file.stored.open() as stream, target.open("wb") as out:
            shutil.copyfileobj(stream, out, _COPY_BYTES)
    except StorageError:
        raise
    except SourceError as error:
        return replace(file, path=target, stored=None, problem=error.problem)
    return _stamp_file(file.name, target)


def stamp_files(files: Iterable[Path]) -> list[InputFile]:
    """Return files given one by one, in that order, under their own names."""
    return [_stamp_file(file.name, file) for file in files]


def _stamp_file(name: str, path: Path) -> InputFile:
    try:
        facts = path.stat()
    except OSError:  # it has vanished, or is a link to nowhere
        return InputFile(name=name, path=path, bytes=0, mtime_ns=0)
    size, time, inode = facts.st_size, facts.st_mtime_ns, (facts.st_ino, facts.st_ctime_ns)
    return InputFile(name=name, path=path, bytes=size, mtime_ns=time, inode=inode)


@contextmanager
def open_file(file: InputFile) -> Iterator[ParquetFile]:
    """Yield a Parquet file. Raises OSError and SourceError."""
    with file.path.open("rb") as stream, open_parquet(stream, str(file.path)) as parquet:
        yield parquet


def group_neighbours(items: Iterable[InputFile], max_bytes: float) -> list[list[InputFile]]:
    """Group neighbours up to so many bytes; a larger file is a group of its own."""
    groups: list[list[InputFile]] = []
    size = 0
    for one in items:
        if not groups or size + one.bytes > max_bytes:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.bytes
    return groups


def plan_units(files: Sequence[InputFile], *, whole_files: bool) -> list[Unit]:
    """Return the units of the files, in order."""
    units: list[Unit] = []
    for number, file in enumerate(files):
        for groups, row, size in _unit_ranges(file, whole_files):
            unit = Unit(
                number=len(units), file=number, row_groups=groups, first_row=row, bytes=size
            )
            units.append(unit)
    return units


def _unit_ranges(
    file: InputFile, whole_files: bool
) -> Iterator[tuple[tuple[int, int] | None, int, int]]:
    counts = [] if whole_files or file.bytes <= UNIT_BYTES else _group_rows(file)
    if len(counts) < 2:
        yield None, 0, file.bytes
        return
    first_group, first_row, rows = 0, 0, 0
    share = file.bytes / max(1, sum(counts))
    for group, count in enumerate(counts):
        rows += count
        if rows * share >= UNIT_BYTES or group == len(counts) - 1:
            yield (first_group, group + 1), first_row, round(rows * share)
            first_group, first_row, rows = group + 1, first_row + rows, 0


def _group_rows(file: InputFile) -> list[int]:
    """The rows of each row group; none of what is no Parquet file: reading says what is wrong."""
    try:
        with open_file(file) as parquet:
            return [rows for rows, _ in parquet.groups]
    except (SourceError, OSError):
        return []


TEXT_COLUMNS: Final = ("text", "content", "doc")
_TEXT_TYPES: Final = (
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    *(pa.binary_view(), pa.null()),
)
_SHOWN_FIELDS: Final = 20  # columns in an error
_SHOWN_CHARS: Final = 80  # of each
_ERROR_CHARS: Final = 300
_LOOKED_AT: Final = 1000  # rows

InputKind: TypeAlias = Literal["raw", "pt", "sft"]


@dataclass(frozen=True, kw_only=True, slots=True)
class InputLayout:
    """What is read out of every file."""

    kind: InputKind  # texts of raw columns, or unified records
    columns: tuple[str, ...]


_RECORD_LAYOUTS: Final[dict[str, InputLayout]] = {
    "pt": InputLayout(kind="pt", columns=("text",)),
    "sft": InputLayout(kind="sft", columns=("messages", "system", "tools")),
}


def find_layout(files: Sequence[InputFile], text_cols: tuple[str, ...] | None) -> InputLayout:
    """Return what to read, by the first readable file: ingot records, or columns that are texts."""
    first: SourceError | None = None
    for file in files:
        try:
            return _file_layout(file, text_cols)
        except SourceError as error:
            first = first or error
    raise first or SourceError("", "no file to read")


def _file_layout(file: InputFile, text_cols: tuple[str, ...] | None) -> InputLayout:
    check_same_file(file)
    if file.path.suffix == ".jsonl":
        with translate_read_errors(file):
            batch = next(read_batches([file.path], rows=1), None)
        if batch is None:
            raise SourceError(str(file.path), "holds no record", "remove it, or repair it")
        records: InputKind = "sft" if "messages" in batch.schema.names else "pt"
        return _records_layout(records, text_cols, file)
    with translate_read_errors(file), open_file(file) as parquet:
        schema = parquet.schema
    kind = kind_of_schema(schema)
    if kind is not None:
        return _records_layout(kind, text_cols, file)
    columns = text_cols or _likely_column(schema, file)
    _check_columns(schema, columns, file)
    return InputLayout(kind="raw", columns=columns)


def _records_layout(
    kind: InputKind, text_cols: tuple[str, ...] | None, file: InputFile
) -> InputLayout:
    if text_cols and (kind, text_cols) != ("pt", ("text",)):
        problem = "holds ingot records, whose text is known"
        raise SourceError(str(file.path), problem, "leave out `text_cols`")
    return _RECORD_LAYOUTS[kind]


def _likely_column(schema: pa.Schema, file: InputFile) -> tuple[str, ...]:
    """The column that most likely holds the texts; of two alike, the one spelled as wanted."""
    texts = [field.name for field in schema if _is_text_type(field.type)]
    for likely in TEXT_COLUMNS:
        spellings = [name for name in texts if name.lower() == likely]
        if spellings:
            return (likely if likely in spellings else spellings[0],)
    names = f"{', '.join(TEXT_COLUMNS[:-1])} or {TEXT_COLUMNS[-1]}"
    problem = f"has no column of texts named {names} (it has {_shown_fields(schema)})"
    raise SourceError(str(file.path), problem, "name the columns in `text_cols`")


def _shown_fields(schema: pa.Schema) -> str:
    fields = ", ".join(
        f"{field.name!r}: {field.type}"[:_SHOWN_CHARS] for field in list(schema)[:_SHOWN_FIELDS]
    )
    return f"{fields}, ..." if len(schema) > _SHOWN_FIELDS else fields or "none"


def _check_columns(schema: pa.Schema, columns: Sequence[str], file: InputFile) -> None:
    for name in columns:
        indices = schema.get_all_field_indices(name)
        if not indices:
            problem = f"has no column {name!r} (it has {_shown_fields(schema)})"
            raise SourceError(str(file.path), problem, "name other columns in `text_cols`")
        if len(indices) > 1:
            problem = f"has {len(indices)} columns {name!r}"
            raise SourceError(str(file.path), problem, "give them names of their own")
        kind = schema.field(indices[0]).type
        if not _is_text_type(kind):
            problem = f"column {name!r} is {str(kind)[:_SHOWN_CHARS]}, not text"
            raise SourceError(str(file.path), problem, "name other columns in `text_cols`")


def _is_text_type(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text_type(kind.value_type)
    return kind in _TEXT_TYPES


def describe_columns(file: InputFile, layout: InputLayout) -> str:
    """Say that columns are empty at the beginning of a file where others hold text, if so."""
    if layout.kind != "raw":
        return ""
    with suppress(SourceError), translate_read_errors(file), open_file(file) as parquet:
        batch, _ = next(parquet.batches(_LOOKED_AT), (pa.record_batch({}), True))
        texts = [field.name for field in batch.schema if _is_text_type(field.type)]
        filled = [name for name in texts if _holds_text(batch[name])]
        if filled and not set(filled) & set(layout.columns):
            empty, filled_names = (
                ", ".join(map(repr, names)) for names in (layout.columns, filled)
            )
            return (
                f"{empty} is empty and {filled_names} holds text: name the columns in `text_cols`"
            )
    return ""


def _holds_text(column: pa.Array) -> bool:
    return any(one.strip() for one in column.drop_null().to_pylist())


@contextmanager
def translate_read_errors(file: InputFile) -> Iterator[None]:
    """Translate what the readers say about a file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        # The operating system's own errors carry a number; Arrow's do not.
        raise _read_error(file, getattr(error, "strerror", None) or str(error)) from error
    except ConversionError as error:
        raise SourceError(error.where, error.problem, error.hint) from error


def _read_error(file: InputFile, message: str) -> SourceError:
    problem = f"cannot be read: {' '.join(message.split())[:_ERROR_CHARS]}"
    return SourceError(str(file.path), problem, "mend it or take it out")


def check_same_file(file: InputFile) -> None:
    """See that a file is what it was when it was listed."""
    if file.problem:
        raise SourceError(str(file.path), file.problem)
    with translate_read_errors(file):
        facts = file.path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise _read_error(file, "it is not a regular file")
    if _stamp_file(file.name, file.path) != file:
        raise SourceError(str(file.path), "changed while it was to be read", "start again")


def check_schema_fits(schema: pa.Schema, layout: InputLayout, file: InputFile) -> None:
    """See that a Parquet file holds what is read out of every one."""
    kind = kind_of_schema(schema) or "raw"
    if kind != layout.kind:
        names = {"raw": "no ingot records", "pt": "PT records", "sft": "SFT records"}
        problem = f"holds {names[kind]}, the first file {names[layout.kind]}"
        raise SourceError(str(file.path), problem, "build one data set of each kind")
    if kind == "raw":
        _check_columns(schema, layout.columns, file)
