"""Log lines: valid JSON of bounded length from anything; a bad stream stops nothing."""

import errno
import io
import json
import os
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.output.monitoring import MAX_LINE, LogStream, log_line

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123_456, tzinfo=UTC)


def message(**fields: Any) -> dict[str, Any]:
    head = {"kind": "log", "level": "info", "component": "reader", "event": "batch_read"}
    return {**head, **fields}


def read(line: bytes) -> dict[str, Any]:
    """The line through two parsers, one of which refuses lone surrogates."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) <= MAX_LINE
    parsed: dict[str, Any] = orjson.loads(line)
    assert parsed == json.loads(line)
    assert line.decode()[:-1].isprintable()
    return parsed


def test_the_fields_of_the_document_come_as_they_are() -> None:
    fields = {
        "file_path": "a/b.parquet",
        "row_group": 3,
        "batch_size": 4096,
        "bytes_read": 10**12,
        "records": 5,
        "tokens": 6,
        "latency_ms": 1.25,
        "queue_depth_reader": 2,
        "queue_depth_tok": 0,
        "cpu_pct": 99.5,
        "mem_rss_bytes": 2**33,
        "disk_read_MBps": 0.5,
        "disk_write_MBps": 0.0,
        "error": None,
        "error_count": 0,
        "worker": 1,
    }
    line = read(log_line(message(**fields), MOMENT))
    head = {"level": "info", "component": "reader", "event": "batch_read"}
    assert line == {"ts": "2026-03-01T12:30:15.123Z", **head, **fields}
    assert list(line)[:4] == ["ts", "level", "component", "event"]


def test_the_time_is_utc_and_no_field_replaces_it() -> None:
    moment = MOMENT.astimezone(timezone(timedelta(hours=8)))
    assert read(log_line(message(ts="yesterday"), moment))["ts"] == "2026-03-01T12:30:15.123Z"


def test_control_characters_are_escaped_and_come_back() -> None:
    hostile = "a\x1b[31m\r\n\x00\x7f\x9b\u2028\u202e\ufeff\U000e0001 ok 敏捷"
    line = log_line(message(file_path=hostile), MOMENT)
    assert read(line)["file_path"] == hostile
    assert "敏捷" in line.decode()


def test_lone_surrogates_are_shown() -> None:
    assert read(log_line(message(file_path="a\udcff.parquet"), MOMENT))["file_path"] == (
        "a\\udcff.parquet"
    )


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000_000, ["y" * 1000] * 1000, {f"{n}" * 50: "\x00" * 5000 for n in range(500)}],
    ids=["text", "list", "object"],
)
def test_no_line_is_longer_than_the_limit(value: Any) -> None:
    line = read(log_line(message(error=value, **{f"f{n}": value for n in range(100)}), MOMENT))
    assert line["event"] == "batch_read"


def test_a_line_of_too_many_long_names_says_what_it_left_out() -> None:
    fields: dict[str, Any] = {f"{n}" + "\x01" * 100: "\x02" * 100 for n in range(200)}
    fields |= {
        f"{n}": {f"{m}" + "\x01" * 100: ["\x02" * 100] * 9 for m in range(9)} for n in range(9)
    }
    lists = {f"a{n}": [["\x03" * 100] * 9] * 9 for n in range(20)}
    line = read(log_line({**message(), **lists, **fields}, MOMENT))
    assert line["fields_left_out"] == 229


def test_what_is_cut_is_marked() -> None:
    many = {f"k{n}": n for n in range(70)}
    line = read(log_line(message(error="x" * 3000, missing=[*range(100)], mismatched=many), MOMENT))
    assert line["error"] == "x" * 1999 + "…"
    assert line["missing"][-2:] == [66, "… 33"]
    assert list(line["mismatched"].items())[-2:] == [("k66", 66), ("…", 3)]


def test_numbers_of_every_size() -> None:
    fields = {"nan": float("nan"), "inf": float("inf"), "big": 10**5000, "small": -(2**80)}
    line = read(log_line(message(**fields, double=np.float64(0.5)), MOMENT))
    assert line["nan"] is line["inf"] is None
    assert line["big"].startswith("0x")
    assert line["small"] == hex(-(2**80))
    assert line["double"] == 0.5


def test_what_json_has_no_type_for_is_named() -> None:
    line = read(log_line(message(path=Path("a"), raw=b"\xff"), MOMENT))
    assert line["path"] == "(PosixPath)"
    assert line["raw"] == "(bytes)"


def test_nesting_has_an_end() -> None:
    deep: Any = "end"
    for _ in range(10_000):
        deep = [deep]
    assert read(log_line(message(error=deep), MOMENT))["error"] == [[["(list)"]]]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    )
)
def test_anything_is_a_line(value: Any) -> None:
    read(log_line(message(error=value), MOMENT))


@pytest.mark.parametrize(
    ("level", "heard"),
    [("trace", 5), ("debug", 4), ("info", 3), ("warn", 2), ("error", 1)],
)
def test_levels(level: Any, heard: int) -> None:
    stream = io.BytesIO()
    log = LogStream(stream, level)
    for one in ("trace", "debug", "info", "warn", "error"):
        log.log(message(level=one))
    assert stream.getvalue().count(b"\n") == heard
    log.log(message(level="of data"))
    assert stream.getvalue().count(b"\n") == heard + 1


def test_a_pipe_that_nobody_reads_loses_lines_only() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stream:
        log = LogStream(stream, "info")
        log.write(message())
        log.write(message())
        assert log.lost == 2
        # Nothing is left in a buffer: closing it, or leaving Python, would fail again.


def test_a_closed_stream_loses_lines_only() -> None:
    stream = io.BytesIO()
    log = LogStream(stream, "info")
    log.write(message())
    stream.close()
    log.write(message())
    assert log.lost == 1
    assert LogStream(stream, "info").lost == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_loses_lines_only() -> None:
    with Path("/dev/full").open("wb") as stream:
        log = LogStream(stream, "info")
        log.write(message())
        assert log.lost == 1


class Filling(io.RawIOBase):
    """A disk with room for some bytes, which grows later."""

    def __init__(self) -> None:
        self.room = 50
        self.kept = b""

    def write(self, data: Any, /) -> int:
        part = bytes(data[: self.room - len(self.kept)])
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.kept += part
        return len(part)


def test_a_disk_with_room_again_gets_whole_lines_again() -> None:
    disk = Filling()
    log = LogStream(disk, "info")  # type: ignore[arg-type]
    log.write(message(event="torn"))
    log.write(message(event="lost"))
    disk.room = 100_000
    log.write(message(event="whole"))
    lines = disk.kept.splitlines()
    assert log.lost == 2
    assert [len(lines[0]), json.loads(lines[1])["event"], len(lines)] == [50, "whole", 2]


def test_standard_output_is_written_below_its_buffer(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.dup(1), "w") as stdout:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", stdout)
        stdout.write("before\n")
        LogStream(None, "info").write(message())
        out = capfd.readouterr().out
    assert out.startswith("before\n")
    assert json.loads(out.splitlines()[1])["event"] == "batch_read"


def test_a_process_without_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    log = LogStream(None, "info")
    log.write(message())
    assert log.lost == 1
