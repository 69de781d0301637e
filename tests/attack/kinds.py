"""What is damaged and how it is read: every reader of rows, and every format that ingot reads back.

A kind makes its sound input in a folder, names the files to damage, and checks a damaged folder: by
the path that `ingot run` and `ingot convert` take, or by a command. A check gives `whole` (nothing
is missing), `counted` (what is missing is told) or `error` (a clean error that names the file), and
raises AssertionError where counts do not add up.
"""

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import zstandard
from typer.testing import CliRunner

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.errors import IngotError, SourceError
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import draw_sample
from tests.attack.library_files import LIBRARY_FILES, make_delta
from tests.attack.mutations import Mutation, mutate_bytes, mutate_inside
from tests.attack.raw_data import FILES

DOCUMENTS = ("txt", "transcript", "gb18030", "markdown", "html", "notebook", "mbox", "eml")
MAPPINGS = dict.fromkeys((*DOCUMENTS, "warc", "warc_gz"), "text") | {"webdataset": "answer.txt"}
ALL_FILES = {**FILES, **LIBRARY_FILES}
CONVERTED_EVERY = 8


@dataclass(frozen=True)
class Case:
    """A folder with the damaged file of that name; `name` is empty where nothing is damaged."""

    folder: Path
    name: str
    number: int
    dice: random.Random


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of input."""

    name: str
    make: Callable[[Path], None]
    check: Callable[[Case], str]
    damaged: tuple[str, ...] = ()  # globs of files; none: the check makes its input by the dice
    mutations: tuple[Mutation, ...] = (mutate_bytes,)
    weight: int = 3
    sound: str = "whole"  # how the sound input ends; empty: any way


def run_ingot(
    case: Case, *words: str | Path, codes: Iterable[int] = (0, 1, 2, 3)
) -> tuple[int, str]:
    """Run a command in this process; gives its exit code and what it printed. Errors that are not
    ingot's own are raised, and a failure has to name the damaged file or its folder."""
    from ingot.cli.app import app

    os.environ["INGOT_HOME"] = str(case.folder / "home")
    ran = CliRunner().invoke(app, [str(word) for word in words])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code in set(codes), f"{words}: exit {ran.exit_code}: {ran.output[-300:]}"
    if ran.exit_code in (1, 2) and case.name:
        names = (case.name, case.folder.name)
        assert any(name in ran.output for name in names), f"names no file: {ran.output[-300:]}"
    return ran.exit_code, ran.stdout


def check_named(error: IngotError, case: Case) -> None:
    """An error names the damaged file or its folder."""
    names = (case.name, case.folder.name)
    assert any(name in str(error) for name in names), f"names no file: {error}"


def _read_rows(source: Source) -> tuple[int, int]:
    """Read all rows; gives how many there are and how many of them are bad."""
    rows = bad = 0
    for batch in source.batches():
        assert len(batch.rows) == len(batch.values)
        assert batch.table is None or batch.table.num_rows == len(batch.values)
        json.dumps(list(batch.values), allow_nan=False, ensure_ascii=False).encode()
        rows += sum(batch.weights) if batch.weights else len(batch.values)
        bad += len(batch.bad)
    return rows, bad


def check_rows(case: Case, *, kind: str, name: str) -> str:
    """Read, sample and at times convert a source."""
    path = case.folder / name
    try:
        source = open_source(str(path))
        rows, bad = _read_rows(source)
    except IngotError as error:
        check_named(error, case)
        _check_converted(case, path, kind, None)
        return "error"
    sample = draw_sample(source)
    if sample.complete:
        assert (len(sample.rows), len(sample.bad)) == (rows, bad)
    ORACLES.get(kind, _no_oracle)(path, source, rows + bad)
    _check_converted(case, path, kind, rows + bad)
    if not case.name:
        _sound_rows[kind] = rows + bad
    end = "counted" if bad or source.left_out else "whole"
    # A container tells how much it holds: fewer rows of it are told too.
    is_other = any(file.facts.format == "text" for file in source.files)  # the damage made it that
    if kind in ACCOUNTED and end == "whole" and not is_other:
        assert rows >= _sound_rows.get(kind, 0), f"{rows} of {_sound_rows[kind]} rows, nothing said"
    return end


def _check_converted(case: Case, path: Path, kind: str, rows: int | None) -> None:
    """Hold a conversion against the rows that were read (None: they could not be)."""
    if case.name and case.number % CONVERTED_EVERY:
        return
    document = {"version": 2, "text": MAPPINGS.get(kind, "answer")}
    out, stopped = case.folder / "out", None
    try:
        done = convert(open_source(str(path)), bind(document, ()), out, ConvertOptions(workers=1))
    except IngotError as error:
        stopped = error
    if stopped:
        assert not out.exists()
        assert not rows or not isinstance(stopped, SourceError), f"read before: {stopped}"
        return
    counts = done.manifest["rows"]
    assert rows == counts["read"], f"{rows} rows were read, {counts} converted"
    hold_result(out)


def hold_result(out: Path) -> None:
    """Hold the counts of a result against each other and against its records."""
    manifest = json.loads((out / "manifest.json").read_bytes())
    rows, records = manifest["rows"], manifest["records"]
    assert rows["read"] == rows["converted"] + rows["rejected"] + rows["filtered"], rows
    parts = [*(out / "records").glob("*.parquet")]
    lines = sum(path.read_bytes().count(b"\n") for path in (out / "records").glob("*.jsonl"))
    assert records["written"] == lines + sum(pq.read_metadata(path).num_rows for path in parts)


def _no_oracle(path: Path, source: Source, rows: int) -> None:
    """Nothing else tells how many rows there are."""


def _hold_lines(path: Path, source: Source, rows: int) -> None:
    """Lines of JSON are counted by splitting them."""
    facts = source.files[0].facts
    if facts.format == "jsonl" and (facts.encoding or "").lower().startswith("utf-8"):
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        assert rows == sum(1 for line in content.split(b"\n") if line.strip(b" \t\r\n"))


def _hold_unpacked(
    path: Path, source: Source, rows: int, *, unpack: Callable[[bytes], bytes]
) -> None:
    """A compressed file that is read without an error can be unpacked to as many lines."""
    facts = source.files[0].facts
    if facts.format == "jsonl" and facts.compression:  # else the damage made it another file
        content = unpack(path.read_bytes())
        assert rows == sum(1 for line in content.split(b"\n") if line.strip(b" \t\r\n"))


def _hold_footer(path: Path, source: Source, rows: int) -> None:
    """The footer of Parquet tells the number of rows."""
    if source.files[0].facts.format == "parquet":
        assert rows == pq.read_metadata(path).num_rows


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


ORACLES: dict[str, Callable[[Path, Source, int], None]] = {
    "jsonl": _hold_lines,
    "gz": partial(_hold_unpacked, unpack=gzip.decompress),
    "bz2": partial(_hold_unpacked, unpack=bz2.decompress),
    "xz": partial(_hold_unpacked, unpack=lzma.decompress),
    "zst": partial(_hold_unpacked, unpack=_unzstd),
    **dict.fromkeys(("parquet", "parquet_plain", "parquet_v2", "parquet_types"), _hold_footer),
}
# What sound inputs hold, by kind: a worker checks one before it damages others.
_sound_rows: dict[str, int] = {}
ACCOUNTED = frozenset(
    (
        *("tar", "tgz", "zip", "nested", "gz", "zst", "bz2", "xz", "webdataset"),
        *("parquet", "parquet_plain", "parquet_v2", "parquet_types", "orc", "feather"),
        *("arrow_file", "arrow_stream", "avro"),
        *("webdataset_gz", "tar_bz2", "zip_stored", "gz_members", "zst_frames", "xz_streams"),
    )
)
CONTAINERS = (
    *(
        "parquet",
        "arrow",
        "gz",
        "zst",
        "zip",
        "tar",
        "tgz",
        "nested",
        "bz2",
        "xz",
        "orc",
        "feather",
    ),
    *("avro", "msgpack", "webdataset", "xlsx", "xls", "ods", "sqlite", "duckdb", "warc_gz"),
)


def _make_file(folder: Path, *, kind: str) -> None:
    name, data = ALL_FILES[kind]
    (folder / name).write_bytes(data())


def source_kinds() -> list[Kind]:
    """A kind for every reader of rows."""
    both = (mutate_bytes, mutate_inside)
    kinds = [
        Kind(
            name=name,
            make=partial(_make_file, kind=name),
            check=partial(check_rows, kind=name, name=file),
            damaged=(file,),
            mutations=both if name.startswith(CONTAINERS) else (mutate_bytes,),
            weight=15 if name.startswith(("parquet", "arrow")) else 9,
            sound="counted" if name == "xlsx" else "whole",  # it has sheets of other shapes
        )
        for name, (file, _) in ALL_FILES.items()
    ]
    check = partial(check_rows, kind="delta", name="t")
    return [
        *kinds,
        Kind(name="delta", make=make_delta, check=check, damaged=("t/**/*",), weight=9, sound=""),
    ]


def damage(kind: Kind, base: Path, folder: Path, seed: str) -> Case:
    """Copy the sound input of a kind and damage one file of it."""
    dice = random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    number = int(seed.rpartition(":")[2])
    found = {path for glob in kind.damaged for path in folder.glob(glob)}
    files = sorted(path for path in found if path.is_file() and path.stat().st_size)
    if not files:
        return Case(folder, "", number, dice)
    path = dice.choice(files)
    path.write_bytes(dice.choice(kind.mutations)(path.read_bytes(), dice))
    return Case(folder, path.name, number, dice)


def sound_case(folder: Path) -> Case:
    """The case in which nothing is damaged."""
    return Case(folder, "", 0, random.Random(0))
