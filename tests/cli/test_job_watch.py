"""Long jobs over HTTP and in lines of JSON: real processes, real requests."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import typer.main
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from ingot.cli import job_watch
from ingot.cli.app import app
from ingot.cli.job_watch import JobState, JobWatch, Pace, Watching
from ingot.converters import progress
from ingot.converters.errors import ConversionError
from ingot.converters.output import monitoring
from ingot.converters.output.monitoring import LogStream, make_registry
from ingot.converters.progress import JobMeasures, ProcessUse, Progress
from tests.attack import kills

DOCS = Path(__file__).parents[2] / "docs"
JOBS = {job.name: job for job in kills.JOBS}
WATCHED = ("convert", "run", "ctr", "criteo", "multihot", "monolith", "lake")
Ask = tuple[int, str]


def get(port: int, path: str) -> Ask:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by name and stage; the text is parsed as Prometheus does."""
    families = text_string_to_metric_families(text)
    return {
        (one.name, one.labels.get("stage", "")): one.value for f in families for one in f.samples
    }


@contextmanager
def started(folder: Path, *words: str, **variables: str) -> Iterator[tuple[Any, int]]:
    """A process that serves, and its port."""
    log = folder / "log"
    surroundings = {**os.environ, **variables, "INGOT_METRICS_PORT": "0", "INGOT_LOG_FILE": "log"}
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=surroundings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        served: list[int] = []
        while not served and process.poll() is None:
            served = [one["port"] for one in events(log) if one["event"] == "serving"]
            time.sleep(0.005)
        assert served, process.communicate()[1]
        yield process, served[0]
    finally:
        process.kill()
        process.communicate()


def await_ready(process: Any, port: int) -> None:
    end = time.monotonic() + 30
    while get(port, "/readyz")[0] != 200 and time.monotonic() < end:
        assert process.poll() is None
        time.sleep(0.005)
    assert get(port, "/readyz") == (200, "ready\n")


@pytest.mark.more
def test_a_conversion_is_served_and_drains(tmp_path: Path) -> None:
    kills._write_rows(tmp_path / "raw", 1, 500_000)
    kills._mapping(tmp_path, "m.json", ["question", "answer"])
    words = ("-m", "ingot", "convert", "m.json", "raw", "--out", "o", "--workers", "1")
    with started(tmp_path, *words, INGOT_GRACE="0.5") as (process, port):
        first = get(port, "/readyz")
        assert first in ((200, "ready\n"), (503, "not ready\n"))
        await_ready(process, port)
        assert get(port, "/healthz") == (200, '{"status": "ok"}\n')
        status, text = get(port, "/metrics")
        found = samples(text)
        assert status == 200
        assert found["ingot_up", ""] == 1
        assert found["ingot_shards", "convert"] == 1
        assert found["ingot_shards_done", "convert"] == 0
        assert found["ingot_rejects_total", "convert"] == 0
        assert found["ingot_memory_bytes", ""] > 10_000_000
        assert {("ingot_rows_total", "convert"), ("ingot_records_total", "convert")} < set(found)
        assert 'job="convert"' in text
        process.send_signal(signal.SIGTERM)
        while get(port, "/readyz") != (503, "not ready\n"):  # Python hears it between two calls
            time.sleep(0.005)
        assert get(port, "/healthz")[0] == 200
        assert process.wait(30) == 143
    said = events(tmp_path / "log")
    names = [one["event"] for one in said]
    assert names[:2] == ["started", "serving"]
    assert names[-1] == "terminated"
    assert "stage" in names
    for one in said:
        assert list(one)[:4] == ["ts", "level", "component", "event"]
        assert one["component"] == "convert"


@pytest.mark.more
@pytest.mark.parametrize("name", WATCHED)
def test_every_long_job_logs_its_counts(name: str, tmp_path: Path) -> None:
    job = JOBS[name]
    job.prepare(tmp_path)
    (tmp_path / "log").unlink(missing_ok=True)
    done = subprocess.run(
        job.command("--log-format", "json", "--metrics-port", "0"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [one["event"] for one in said][:2] == ["started", "serving"]
    last = said[-1]
    assert last["event"] == "finished"
    assert last["component"] == " ".join(job.words[:2] if job.words[1] in TWO else job.words[:1])
    assert last["seconds"] > 0
    told = [one for one in said if one["event"] in ("stage", "progress", "finished")]
    amounts = [one["rows"] for one in told if "rows" in one]  # one of a slow start has none
    assert max(amounts) > 0
    if name == "lake":  # its lines for people are left out
        assert len(said) == len(done.stderr.splitlines())


TWO = ("build", "preprocess", "multihot", "convert", "run")


# What writes and is not watched, with the reason.
UNWATCHED = {
    "map": "one proposal",
    "chat": "a person is there",
    "review": "a report",
    "export": "links or copies one result",
    "ctr draft": "a sample",
    "tokens merge": "copies tokens",
}


def commands(command: Any, words: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command with the names of its parameters."""
    if not hasattr(command, "list_commands"):
        yield words, {parameter.name for parameter in command.params}
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), f"{words} {name}".strip())


def unwatched(names: Mapping[str, set[str]]) -> set[str]:
    """The commands that write to a place and serve no metrics."""
    return {
        words
        for words, parameters in names.items()
        if parameters & {"out", "output_prefix"} and not parameters & {"metrics_port", "port"}
    }


def test_every_command_that_writes_for_long_is_watched() -> None:
    names = dict(commands(typer.main.get_command(app)))
    assert unwatched(names) == UNWATCHED.keys()
    watched = {words for words, parameters in names.items() if "metrics_port" in parameters}
    text = (DOCS / "operations.md").read_text("utf-8").split("\n## ")[0]
    assert {*re.findall(r"`([\w ]+)`", text)} == watched | {"tokens build"}


def test_a_command_that_is_not_watched_is_found() -> None:
    names = {"a b": {"out", "overwrite"}, "c": {"out", "metrics_port"}, "d": {"folder"}}
    assert unwatched(names) == {"a b"}


@pytest.mark.more
def test_a_lake_that_waits_is_healthy_and_ends(tmp_path: Path) -> None:
    kills._write_rows(tmp_path / "raw/set", 2, 40)
    for file in (tmp_path / "raw/set").iterdir():
        os.utime(file, (0, 0))  # what changed a moment ago is for a later run
    words = ("-m", "ingot", "lake", "run", "raw", "--out", "o", "--yes", "--mapper", "rules")
    with started(tmp_path, *words, "--watch", "--poll", "60") as (process, port):
        await_ready(process, port)
        end = time.monotonic() + 30
        while not (tmp_path / "o/index.html").exists() and time.monotonic() < end:
            time.sleep(0.05)
        found = samples(get(port, "/metrics")[1])
        assert found["ingot_rows_total", "data sets"] == 80
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143


@pytest.mark.more
def test_the_error_that_ends_a_command_is_a_line_of_json_too(tmp_path: Path) -> None:
    words = ("convert", "m.json", "nowhere", "--out", "o", "--log-format", "json")
    command = [sys.executable, "-m", "ingot", *words]
    kills._mapping(tmp_path, "m.json", ["question", "answer"])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    last = [json.loads(line) for line in done.stderr.splitlines()][-1]
    assert (last["level"], last["event"]) == ("error", "error")
    assert last["error"].startswith("error: nowhere: no such file or folder")
    text = subprocess.run([*command, "--log-file", "log"], cwd=tmp_path, capture_output=True)
    assert text.stderr.startswith(b"error: nowhere: ")


@pytest.mark.more
def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    kills._write_rows(tmp_path / "raw", 1, 3)
    kills._mapping(tmp_path, "m.json", ["question", "answer"])
    server = monitoring.MetricsServer("127.0.0.1", 0, make_registry(list), lambda: None)
    try:
        words = ("convert", "m.json", "raw", "--out", "o", "--metrics-port", str(server.port))
        command = [sys.executable, "-m", "ingot", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    finally:
        server.close()
    assert done.returncode == 1
    assert "cannot serve metrics there" in done.stderr


def far(rows: int, stage: str = "convert") -> Progress:
    return Progress(stage=stage, shards_done=1, shards=4, rows=rows, records=rows, rejects=2)


def measured(rows: int, records: int, rejects: int, **amounts: int) -> Progress:
    """A job that measures more than rows."""
    measures = JobMeasures(phase="read", amounts=amounts, values={"input_bytes": 1000})
    known = {"rows": rows, "records": records, "rejects": rejects}
    return Progress(stage="tokens", shards_done=0, shards=4, **known, measures=measures)


def watch(log: io.BytesIO | None = None, **more: Any) -> JobWatch:
    lines = LogStream(log, "info") if log else None
    how: dict[str, Any] = {"port": 0, "redact": lambda text: text.replace("secret", "***"), **more}
    return JobWatch("convert", Watching(log=lines, **how))


def lines_of(log: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


@pytest.mark.more
def test_a_job_without_progress_and_without_work_is_not_healthy(monkeypatch: Any) -> None:
    busy = [10.0]
    monkeypatch.setattr(
        job_watch, "measure_processes", lambda: {(1, 0.0): ProcessUse(busy[0], 0, 0, 1)}
    )
    with watch(stall_seconds=0.05) as job:
        time.sleep(0.1)
        assert job.trouble() is None  # nothing has begun
        assert not job.ready()
        job(far(1))
        assert (job.trouble(), job.ready()) == (None, True)
        time.sleep(0.1)
        assert "no progress" in str(job.trouble())
        busy[0] += 5  # within a large shard
        assert job.trouble() is None
        time.sleep(0.1)
        job(far(1))  # the same again
        assert job.trouble() is not None
        job(far(1, progress.WAITING))
        time.sleep(0.1)
        assert job.trouble() is None
        job(far(2))
        assert job.trouble() is None


def test_all_formats_of_metrics_can_be_read() -> None:
    with watch() as job:
        job(far(7))
        job(far(9, "tokens"))
        assert job.port
        registry = make_registry(job.metrics)
        text = exposition.generate_latest(registry).decode()
        names = {one.name for one in open_metrics(text)}
        assert {"ingot_up", "ingot_rows", "ingot_records", "ingot_rejects"} <= names
        found = samples(get(job.port, "/metrics")[1])
        assert found["ingot_rows_total", "convert"] == 7
        assert found["ingot_rows_total", "tokens"] == 9
        assert found["ingot_rejects_total", "convert"] == 2


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (ValueError("the secret is out"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
        (progress.TerminatedError(), "terminated"),
    ],
)
def test_the_last_line_says_how_a_job_ended(error: BaseException, event: str) -> None:
    log = io.BytesIO()

    def end() -> None:
        with watch(log) as job:
            job(far(3))
            raise error

    with pytest.raises(type(error)):
        end()
    last = json.loads(log.getvalue().splitlines()[-1])
    assert (last["event"], last["rows"]) == (event, 3)
    assert last.get("error", "***") in ("***", "the *** is out")


def test_a_stall_is_logged_once_and_its_end(monkeypatch: Any) -> None:
    busy = [10.0]
    monkeypatch.setattr(
        job_watch, "measure_processes", lambda: {(1, 0.0): ProcessUse(busy[0], 0, 0, 1)}
    )
    log = io.BytesIO()
    with watch(log, stall_seconds=0.05) as job:
        job(far(1))
        job.look()
        time.sleep(0.1)
        job.look()
        job.look()
        busy[0] += 5
        job.look()
    said = lines_of(log)
    stalls = [one for one in said if one["event"].startswith("stall")]
    assert [(one["level"], one["event"]) for one in stalls] == [
        ("warn", "stall"),
        ("info", "stall_over"),
    ]
    assert stalls[0]["stage"] == "convert"
    assert stalls[0]["seconds"] > 0.05


def test_failures_in_a_row_are_said_once_and_their_end() -> None:
    log = io.BytesIO()
    with watch(log, port=None, error_streak=3) as job:
        job(measured(0, 0, 0, failed_files=0))
        job(measured(2, 0, 2, failed_files=0))
        assert job.trouble() is None
        job(measured(3, 0, 3, failed_files=1))
        job(measured(3, 0, 3, failed_files=1, tokens=5))
        assert str(job.trouble()) == "error_rate: 4 rows and files failed in a row"
        job(measured(13, 0, 12, failed_files=1))
        assert job.trouble() is None
        job(measured(16, 0, 15, failed_files=1))
        job(measured(16, 1, 15, failed_files=1))
    said = [one for one in lines_of(log) if one["event"].startswith("error_rate")]
    assert [(one["level"], one["event"], one["error_count"]) for one in said] == [
        ("error", "error_rate", 4),
        ("info", "error_rate_over", 4),
    ]


def test_rates_are_those_of_the_last_half_minute() -> None:
    pace = Pace()
    assert pace.rates() == {}
    for second in range(101):
        slow = 100 * min(second, 50) + 10 * max(second - 50, 0)
        pace.look(float(second), measured(second, 0, 0, tokens=slow, bytes_read=second))
    assert pace.rates() == pytest.approx({"rows": 1, "tokens": 10, "bytes_read": 1})
    assert pace.seconds_left(measured(0, 0, 0, bytes_read=100)) == pytest.approx(900)
    assert pace.seconds_left(measured(0, 0, 0, bytes_read=1000)) is None
    assert pace.seconds_left(far(5)) is None


def test_a_bar_is_drawn_by_the_thread_and_ends_with_the_terminal() -> None:
    drawn: list[JobState] = []
    told = threading.Event()

    def draw(state: JobState) -> None:
        drawn.append(state)
        if state.progress:
            told.set()
            raise BrokenPipeError

    with watch(port=None, draw=draw) as job:
        job(measured(3, 3, 0, bytes_read=400, tokens=7))
        assert told.wait(60)
        count = len(drawn)
        job.look()
    assert len(drawn) == count
    assert drawn[-1].progress == measured(3, 3, 0, bytes_read=400, tokens=7)
    assert drawn[-1].trouble is None


def test_a_line_of_progress_where_anything_changed() -> None:
    log = io.BytesIO()
    with watch(log, port=None) as job:
        job(far(1))
        for _ in range(3):
            job.look()
        job(measured(3, 3, 0, bytes_read=400, tokens=7))
        job.look()
    shown = [one for one in lines_of(log) if one["event"] == "progress"]
    assert [one["rows"] for one in shown] == [1, 3]
    assert {"cpu_pct", "mem_rss_bytes", "disk_read_MBps", "disk_write_MBps"} <= shown[0].keys()
    assert (shown[1]["phase"], shown[1]["tokens"], shown[1]["input_bytes"]) == ("read", 7, 1000)
    assert {"tokens_per_sec", "bytes_read_per_sec", "eta_seconds"} <= shown[1].keys()


def test_a_taken_port_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    with watch() as job, pytest.raises(ConversionError, match="another port"):
        watch(port=job.port).__enter__()
    assert set(threading.enumerate()) <= before
