"""Parquet files that end, or would fill, the process that decodes them."""

import base64
import io
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ingot.converters.columnar.decoder import decode_files
from ingot.converters.columnar.parquet import open_parquet
from ingot.converters.errors import SourceError
from ingot.converters.output import worker_pool
from ingot.converters.sources import open_source

ROWS = 5_000
# A list of texts in which one bit is wrong: pyarrow 26 ends the process when it reads the footer.
CRASHER = base64.b64decode(
    """
UEFSMRUAFSQVJCwVBBUAFQYVBhw2AigBYRgBYRERAAAAAgAAAAQAAwAAAAMHAAEAAABhFQQZTDUAGAZzY2hlbWEVAg
A0AhgBeBUCFQZMPAAAADUEGARsaXN0FQIAFQwlAhgHZWxlbWVudCUATBwAAAAWBBkcGRwmABwVDBklBgAZOAF4BGxp
c3QHZWxlbWVudBUAFgQWXhZeJgg8NgIoAWEYAWEREQAZHBUAFQAVAgA8FgIZJgQAGUYAAgACAAAAFl4WBCYIFl4AKC
BwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAuMRkcHAAAAL4AAABQQVIx
"""
)
READ_AND_WAIT = """
import sys, time, psutil
from ingot.converters.sources import open_source
batches = open_source(sys.argv[1]).batches()
next(batches)
print(*(one.pid for one in psutil.Process().children()), flush=True)
time.sleep(600)
"""
READ_MEASURED = """
import resource, sys
from ingot.converters.output.worker_pool import end_idle
from ingot.converters.sources import open_source
try:
    for batch in open_source(sys.argv[1]).batches():
        list(batch.values)
except Exception as error:
    print(error)
end_idle()
# That of this process itself would count the memory of the one that started it.
own = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
print((own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024)
"""


def write_numbers(path: Path) -> None:
    pq.write_table(pa.table({"id": range(ROWS)}), path, row_group_size=1_000)


def children() -> list[psutil.Process]:
    return psutil.Process().children()


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_process_that_dies_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    write_numbers(tmp_path / "a.parquet")
    with (
        (tmp_path / "a.parquet").open("rb") as stream,
        open_parquet(stream, "a.parquet") as file,
    ):
        batches = file.batches(100)
        assert next(batches)[0].num_rows == 100
        file._process.process.send_signal(signal.SIGKILL)
        with pytest.raises(SourceError, match=r"a\.parquet: .* decodes it ended by signal 9"):
            list(batches)
    source = open_source(str(tmp_path / "a.parquet"))
    assert sum(len(batch.values) for batch in source.batches()) == ROWS


def test_a_file_that_ends_the_process_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(CRASHER)
    write_numbers(tmp_path / "good.parquet")
    with suppress(SourceError):  # what pyarrow does about it may change: this process goes on
        list(open_source(str(tmp_path / "bad.parquet")).batches())
    source = open_source(str(tmp_path / "good.parquet"))
    assert sum(len(batch.values) for batch in source.batches()) == ROWS


def test_one_process_serves_many_files_and_what_was_begun_is_given_up(tmp_path: Path) -> None:
    for name in "abcd":
        write_numbers(tmp_path / f"{name}.parquet")
    source = open_source(str(tmp_path))
    known = {one.pid for one in children()}  # tests before may have left some that wait
    batches = source.batches()
    rows = [next(batches).values[0] for _ in range(2)]
    batches.close()
    rows += [next(source.batches()).values[0]]
    assert rows[0] == rows[2] == {"id": 0}
    assert {one.pid for one in children()} == known != set()


@pytest.mark.more
def test_two_files_are_read_at_once(tmp_path: Path) -> None:
    write_numbers(tmp_path / "a.parquet")
    with (
        (tmp_path / "a.parquet").open("rb") as one,
        (tmp_path / "a.parquet").open("rb") as other,
        open_parquet(one, "one") as first,
        open_parquet(other, "other") as second,
    ):
        pairs = zip(first.batches(7), second.batches(7), strict=True)
        assert all(a.equals(b) for (a, _), (b, _) in pairs)


def test_rows_are_chosen_by_row_group_and_column(tmp_path: Path) -> None:
    table = pa.table({"id": range(ROWS), "name": [str(number) for number in range(ROWS)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1_000)
    with (tmp_path / "a.parquet").open("rb") as stream, open_parquet(stream, "a") as file:
        assert file.schema.equals(table.schema)
        assert [rows for rows, _ in file.groups] == [1_000] * 5
        chosen = [batch for batch, _ in file.batches(600, [1, 3], ["name"])]
    assert pa.Table.from_batches(chosen).column_names == ["name"]
    names = [name for batch in chosen for name in batch["name"].to_pylist()]
    assert names == [str(number) for number in (*range(1000, 2000), *range(3000, 4000))]


def test_a_file_without_a_path_or_under_another_one_is_read_by_the_parent(tmp_path: Path) -> None:
    write_numbers(tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    with (tmp_path / "a.parquet").open("rb") as stream:
        (tmp_path / "a.parquet").unlink()
        (tmp_path / "a.parquet").write_bytes(b"another file")
        for one in (stream, io.BytesIO(data)):
            with open_parquet(one, "a.parquet") as file:
                assert sum(batch.num_rows for batch, _ in file.batches(999)) == ROWS


def test_what_reading_the_bytes_raises_is_raised_here(tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() < 1_000:
                raise SourceError("a.parquet", "its storage is gone")
            return super().read(size)

    write_numbers(tmp_path / "a.parquet")
    failing = Failing((tmp_path / "a.parquet").read_bytes())
    with (
        pytest.raises(SourceError, match=r"a\.parquet: its storage is gone"),
        open_parquet(failing, "a.parquet") as file,
    ):
        list(file.batches(100))


@pytest.mark.more
def test_a_child_of_a_fork_has_a_process_of_its_own(tmp_path: Path) -> None:
    write_numbers(tmp_path / "a.parquet")
    open_source(str(tmp_path))
    assert worker_pool._idle[decode_files]
    if (child := os.fork()) == 0:
        try:
            idle = worker_pool._idle
            found = not idle and open_source(str(tmp_path)).files[0].facts.rows == ROWS
            os._exit(0 if found else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert open_source(str(tmp_path)).files[0].facts.rows == ROWS


@pytest.mark.more
def test_a_process_ends_with_its_parent(tmp_path: Path) -> None:
    write_numbers(tmp_path / "a.parquet")
    command = [sys.executable, "-c", READ_AND_WAIT, str(tmp_path / "a.parquet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        assert all(map(is_alive, pids))
        parent.kill()
    while any(map(is_alive, pids)):
        time.sleep(0.05)


def varint(number: int) -> bytes:
    """A number as Parquet has it in its headers."""
    number *= 2
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def expanding_page(size: int) -> bytes:
    """A file with one text of so many equal characters, which a few kilobytes say."""
    schema = pa.schema([pa.field("x", pa.binary(), nullable=False)])
    held = io.BytesIO()
    how = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    template = pa.table({"x": [os.urandom(60_000)]}).cast(schema)
    pq.write_table(template, held, compression="zstd", **how)
    old = pq.read_metadata(held).row_group(0).column(0).total_compressed_size
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=size + 4)
    page = packer.compress(size.to_bytes(4, "little"))
    for start in range(0, size, 1 << 20):
        page += packer.compress(b"a" * min(1 << 20, size - start))
    page += packer.flush()
    # A page's header begins with its kind and both sizes; the footer has that of the whole.
    chunk = held.getvalue()[4 : 4 + old]
    begin = b"\x15\0\x15" + varint(60_004) + b"\x15"
    packed = next(n for n in range(old) if chunk.startswith(begin + varint(n)) and n > old - 100)
    rest = chunk[len(begin + varint(packed)) : old - packed]
    head = b"\x15\0\x15" + varint(size + 4) + b"\x15" + varint(len(page)) + rest
    end = held.getvalue()[4 + old :].replace(varint(old), varint(len(head) + len(page)))
    return b"PAR1" + head + page + end[:-8] + (len(end) - 8).to_bytes(4, "little") + b"PAR1"


def measured(path: Path) -> tuple[list[str], int]:
    command = [sys.executable, "-c", READ_MEASURED, str(path)]
    *said, size = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return said, int(size)


def test_rows_that_do_not_come_are_an_error(tmp_path: Path) -> None:
    """Pages of another kind are passed over by pyarrow, which tells nobody."""
    held = io.BytesIO()
    table = pa.table({"text": [f"The number {number}" for number in range(25)]})
    pq.write_table(table, held, use_dictionary=False, compression=None)
    data = bytearray(held.getvalue())
    data[5] = 1  # the kind of the first page
    assert (
        sum(batch.num_rows for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches()) == 0
    )
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(SourceError, match="damaged: 0 of the 25 rows"):
        list(open_source(str(path)).batches())


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep to no such limit")
def test_a_page_that_expands_is_an_error_within_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(expanding_page(100_000))
    assert measured(path)[0] == []
    path.write_bytes(expanding_page(3 << 29))
    assert path.stat().st_size < 1 << 20
    said, size = measured(path)
    assert said[0].startswith(f"{path}: cannot read it: it asks for more memory than there is")
    assert size < 1 << 10


@pytest.mark.more
def test_a_large_file_leaves_room_for_the_next(tmp_path: Path) -> None:
    """What one file may have is less for the next: nothing may be reserved in advance."""
    for name, size in (("large", 1 << 20), ("small", 1)):
        texts = [rng_text(number, size) for number in range(100)]
        pq.write_table(
            pa.table({"text": texts}), tmp_path / f"{name}.parquet", compression="snappy"
        )
    for name in ("large", "small", "large", "small"):
        file = tmp_path / f"{name}.parquet"
        with file.open("rb") as stream, open_parquet(stream, str(file)) as opened:
            assert sum(batch.num_rows for batch, _ in opened.batches(16)) == 100


def rng_text(seed: int, size: int) -> str:
    return random.Random(seed).randbytes(size // 2 + 1).hex()
