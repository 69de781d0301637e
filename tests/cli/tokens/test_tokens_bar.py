"""The progress bar on a real pseudo-terminal, and the summary's table."""

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from ingot.cli.console import open_bar
from ingot.cli.job_watch import JobState
from ingot.cli.tokens.display import (
    BuildMeasures,
    BuildSummary,
    RunSpeed,
    StageTime,
    amount_text,
    clock_text,
    print_summary,
    progress_text,
)
from ingot.converters.progress import JobMeasures, Progress

JOB = """
import sys
from ingot.cli.console import open_bar, open_log
from ingot.converters.output.monitoring import LogStream

with open_bar() as move, open_log(None, sys.stdout) as stream:
    log = LogStream(stream, "info")
    for number in range(4):
        move("scan" if number < 2 else "write", number, 4, f"{number} rows")
        for event in ("first", "second"):
            log.write({"level": "info", "component": "job", "event": f"{event} {number}"})
"""
BUILD = """
import sys, threading
from ingot.cli.console import open_bar, open_log
from ingot.cli.job_watch import JobWatch, Watching
from ingot.cli.tokens.display import draw_progress
from ingot.converters.megatron.messages import BuildMeter, log_event
from ingot.converters.output.monitoring import LogStream

with open_bar(shown=sys.argv[1] == "bar") as move, open_log(None, sys.stdout) as stream:
    drawn = threading.Event()
    if move:
        def draw(state):
            draw_progress(move, state)
            if state.progress and state.progress.rows:
                drawn.set()
    else:
        draw = None
        drawn.set()
    log = LogStream(stream, "warn")
    with JobWatch("tokens build", Watching(log=log, progress_lines=False, draw=draw)) as watch:
        meter = BuildMeter(watch, log.log)
        meter({"kind": "plan", "bytes": 4_000_000_000, "files": 4, "units": 8})
        meter({"kind": "phase", "phase": "read"})
        counts = {"bytes_read": 1_500_000_000, "records": 12_345, "tokens": 67_890_123}
        meter({"kind": "count", **counts})
        assert drawn.wait(60)
        log_event(meter, "warn", "reader", "batch_decode_failed", file_path="a\\x1b[31m.parquet")
"""


def state(
    done: int = 1_500_000_000, total: int = 4_000_000_000, left: float | None = 3723.4
) -> JobState:
    """A build on its way."""
    measures = JobMeasures(
        phase="read",
        amounts={"bytes_read": done, "tokens": 67_890_123},
        values={"input_bytes": total},
    )
    amounts = {"rows": 12_345, "records": 12_000, "shards_done": 1, "shards": 8}
    now = Progress(stage="tokens", **amounts, measures=measures)
    return JobState(now, {"tokens": 1_234_567.8}, left, None)


def shown(word: str, width: int, *, stdout: int | None = None, code: str = BUILD) -> str:
    """All that a job writes to a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    sizes = ("COLUMNS", "LINES", "NO_COLOR")
    environment = {n: v for n, v in os.environ.items() if n not in sizes} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, word],
        stdin=slave,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    seen = b""
    try:
        while part := os.read(master, 65_536):
            seen += part
    except OSError:  # Linux's end of a terminal
        pass
    os.close(master)
    assert process.wait(timeout=60) == 0, seen
    return seen.decode()


def lines_left(seen: str) -> list[str]:
    """The lines that a terminal of endless width shows in the end."""
    rows, at, column = [""], 0, 0
    for code, up, text in re.findall(r"(\x1b\[(\d*)[?0-9;]*[A-Za-z]|\r|\n)|([^\x1b\r\n]+)", seen):
        if code == "\n":
            at += 1
            rows += [""] * (at == len(rows))
        elif code == "\r":
            column = 0
        elif code.endswith("A"):
            at -= int(up or 1)
        elif code == "\x1b[2K":
            rows[at] = ""
        rows[at] = rows[at][:column].ljust(column) + text + rows[at][column + len(text) :]
        column += len(text)
    return rows


@pytest.mark.more
@pytest.mark.parametrize("width", [80, 120])
def test_the_bar_is_one_line_and_the_log_stands_above_it(width: int) -> None:
    seen = shown("bar", width)
    bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)
    bars = [one for one in re.split(r"[\r\n]", bare) if "records" in one]
    drawn = [one for one in bars if "1,500.0/4,000.0 MB  12.3k records  67.9M tokens" in one]
    assert drawn
    assert all(one.startswith("read") and len(one) <= width for one in drawn)
    (line,) = [one for one in lines_left(seen) if one.startswith("{")]
    assert json.loads(line)["file_path"] == "a\x1b[31m.parquet"
    assert not [one for one in lines_left(seen) if "records" in one]


@pytest.mark.more
@pytest.mark.parametrize("width", [20, 80])
def test_the_bar_of_any_job_is_drawn_again_below_the_log(width: int) -> None:
    seen = shown("", width, code=JOB)
    assert all(f"{number} rows" in seen for number in range(4))
    events = [json.loads(one)["event"] for one in lines_left(seen) if one.strip()]
    assert events == [f"{event} {number}" for number in range(4) for event in ("first", "second")]


@pytest.mark.more
def test_without_the_bar_there_is_the_log_only() -> None:
    seen = shown("none", 80)
    assert json.loads(seen)["event"] == "batch_decode_failed"


@pytest.mark.more
def test_a_log_that_goes_to_a_file_has_no_bar_in_it(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        seen = shown("bar", 80, stdout=file.fileno())
    assert "records" in seen
    assert "{" not in seen
    assert json.loads((tmp_path / "log").read_text())["event"] == "batch_decode_failed"


def test_no_bar_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with open_bar() as move:
        assert move is None
    assert capfd.readouterr() == ("", "")


def test_what_the_bar_says() -> None:
    assert progress_text(JobState(None, {}, None, None)) == ""
    assert progress_text(state()) == (
        "1,500.0/4,000.0 MB  12.3k records  67.9M tokens  1.23M/s  1:02:03 left"
    )
    unknown = state(5_000_000, 0, None)
    assert progress_text(unknown).startswith("5.0 MB  12.3k records")
    assert progress_text(state(total=123_456_789_000_000)).startswith("0.0/123.5 TB")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1.00k"),
        (1234, "1.23k"),
        (9_996, "10.0k"),
        (99_960, "100k"),
        (999_600, "1.00M"),
        (5.5e15, "5.50P"),
        (5.5e18, "5500P"),
    ],
)
def test_amounts(number: float, text: str) -> None:
    assert amount_text(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (360_000, "100:00:00")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def summary() -> BuildSummary:
    measured = BuildMeasures(
        wall_seconds=12.0,
        engine="fast\x1b]0;x\x07[bold]",
        disk_mbps=1784.0,
        peak_rss_bytes=800_000_000,
    )
    disk = {"disk_mbps": 1784.0, "disk_share": 0.0112}
    return BuildSummary(
        **asdict(measured),
        **dict.fromkeys(("failed_files", "bytes_written", "filtered"), 0),
        phases={"start": 1.0, "read": 10.0},
        files=3,
        bytes_read=200_000_000,
        text_bytes=600_000_000,
        records=1234,
        documents=1200,
        tokens=150_000_000,
        rejected=4,
        errors={"read": 4},
        speed=RunSpeed(read_mbps=16.67, text_mbps=50.0, tokens_per_sec=12_500_000.0, **disk),
        stages=(
            StageTime(stage="reader", seconds=10.0, share=0.25),
            StageTime(stage="tokenize", seconds=30.0, share=0.75),
        ),
        latency_ms={"p50": 40.0, "p90": 40.0, "p99": None},
    )


def table(width: int, encoding: str = "utf-8") -> str:
    """The summary as a console of an encoding prints it."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_summary(Console(file=out, width=width, highlight=False), summary())
    out.seek(0)
    return out.read()


def test_the_summary_on_a_wide_terminal() -> None:
    lines = [" ".join(line.split()) for line in table(120).splitlines()]
    assert "files 3" in lines
    assert "records 1,234 4 rejected" in lines
    assert "tokens 150,000,000 12.5M tokens/s by fast ]0;x [bold]" in lines
    assert (
        "input 200 MB 16.7 MB/s; in the reading phase 1 % of the disk's sequential reading "
        "(1,784 MB/s)" in lines
    )
    assert "text 600 MB 50.0 MB/s" in lines
    assert "errors 4 read" in lines
    assert "time 12.0 s start 1.0 s, read 10.0 s" in lines
    assert "stages 40.0 s of all threads" in lines
    assert "tokenize 30.0 s 75 % ██████████████████" in lines
    assert "reader 10.0 s 25 % ██████" in lines


@pytest.mark.parametrize(("width", "encoding"), [(80, "utf-8"), (80, "ascii"), (40, "utf-8")])
def test_the_summary_fits_and_has_no_control_characters(width: int, encoding: str) -> None:
    printed = table(width, encoding)
    assert all(len(line) <= width for line in printed.splitlines())
    assert printed.replace("\n", "").isprintable()
    assert ("##################" in printed) == (encoding == "ascii")
