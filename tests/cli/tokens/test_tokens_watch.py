"""A token build's messages as the watch of long jobs shows them: log, metrics and health."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from ingot.cli.job_watch import JobWatch, Watching
from ingot.converters.megatron.messages import BuildMeter, log_event
from ingot.converters.output.monitoring import LogStream, make_registry
from ingot.converters.settings import Level


class Seen(io.BytesIO):
    """A log in memory."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]


@contextmanager
def watched(
    seen: Seen, level: Level = "warn", **more: Any
) -> Iterator[tuple[JobWatch, BuildMeter]]:
    """A watch and the meter that tells it of a build."""
    log = LogStream(seen, level)
    with JobWatch("tokens build", Watching(log=log, **more)) as watch:
        yield watch, BuildMeter(watch, log.log)


def batch(ms: float, reader: int = 0, tokenizer: int = 0, **more: int) -> dict[str, Any]:
    depths = {"queue_depth_reader": reader, "queue_depth_tok": tokenizer}
    return {"kind": "batch", "ms": ms, **depths, **more}


def plant(meter: BuildMeter) -> None:
    """Messages of two workers, among them every counter."""
    meter({"kind": "plan", "bytes": 40_000_000, "files": 4, "units": 8})
    meter({"kind": "phase", "phase": "read"})
    counts = {
        "bytes_read": 10_000_000,
        "text_bytes": 25_000_000,
        "records": 1000,
        "tokens": 7_000_000,
    }
    others = {"documents": 990, "failed_records": 3, "filtered": 7, "bytes_written": 14_000_000}
    for worker in (0, 1):
        meter({"kind": "count", **counts, **others, "tokenize_seconds": 2.5, "worker": worker})
        meter(batch(3.0 + 27 * worker, 2 + worker, 4, worker=worker))
    meter({"kind": "count", "files": 1, "units": 2, "read_errors": 5, "engine_errors": 1})
    meter({"kind": "count", "failed_files": 1})
    meter(batch(300.0, 2, 4, worker=0))
    meter(batch(70_000.0, 3, 4, worker=1))


def get(port: int | None, path: str) -> tuple[int, str]:
    assert port
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def scraped(port: int | None) -> dict[str, Any]:
    """Sample names, with the labels that are not those of the job, and values."""
    status, body = get(port, "/metrics")
    assert status == 200
    own = {"job": "tokens build", "stage": "tokens"}
    found = {}
    for family in text_string_to_metric_families(body):
        for one in family.samples:
            more = {n: v for n, v in one.labels.items() if own.get(n) != v}
            name = one.name.removeprefix("ingot_")
            found["".join((name, *(f"{{{n}={v}}}" for n, v in more.items())))] = one.value
    return found


def test_every_metric_of_the_document_has_its_value() -> None:
    with watched(Seen(), port=0) as (watch, meter):
        plant(meter)
        watch.look()
        found = scraped(watch.port)
    expected = {
        "bytes_read_total": 20_000_000,
        "tokens_total": 14_000_000,
        "rows_total": 2000,
        "records_total": 1980,
        "rejects_total": 6,
        "batch_latency_ms_count": 4,
        "batch_latency_ms_sum": 70_333,
        "batch_latency_ms_bucket{le=2.5}": 0,
        "batch_latency_ms_bucket{le=5.0}": 1,
        "batch_latency_ms_bucket{le=50.0}": 2,
        "batch_latency_ms_bucket{le=60000.0}": 3,
        "batch_latency_ms_bucket{le=+Inf}": 4,
        "queue_depth_reader": 5,
        "queue_depth_tok": 8,
        "read_errors_total": 5,
        "engine_errors_total": 1,
        "worker_errors_total": 0,
        "text_bytes_total": 50_000_000,
        "bytes_written_total": 28_000_000,
        "filtered_total": 14,
        "files_total": 1,
        "failed_files_total": 1,
        "shards_done": 2,
        "shards": 8,
        "tokenize_seconds_total": 5,
        "input_bytes": 40_000_000,
        "input_files": 4,
        "healthy": 1,
        "log_lines_lost_total": 0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["memory_bytes"] > 10_000_000
    for name in ("cpu_pct", "disk_read_mb_per_sec", "disk_write_mb_per_sec", "run_seconds"):
        assert found[name] >= 0
    assert {"bytes_read_per_sec", "tokens_per_sec", "processes"} < set(found)


def test_all_formats_of_metrics_can_be_read() -> None:
    with watched(Seen()) as (watch, meter):
        plant(meter)
        registry = make_registry(watch.metrics)
        text = exposition.generate_latest(registry).decode()
        assert "ingot_batch_latency_ms" in {one.name for one in open_metrics(text)}
        assert [*text_string_to_metric_families(generate_latest(registry).decode())]


def test_a_line_of_progress_has_every_field() -> None:
    seen = Seen()
    with watched(seen, "error") as (watch, meter):
        plant(meter)
        watch.look()
    (line,) = seen.lines
    for name in ("ts", "cpu_pct", "mem_rss_bytes", "disk_read_MBps", "disk_write_MBps"):
        line.pop(name)
    rates = [line.pop(f"{name}_per_sec") for name in ("rows", "bytes_read", "text_bytes", "tokens")]
    assert min(rates) >= 0
    line.pop("eta_seconds")
    assert line == {
        "level": "info",
        "component": "tokens build",
        "event": "progress",
        "phase": "read",
        "stage": "tokens",
        "shards_done": 2,
        "shards": 8,
        "rows": 2000,
        "records": 1980,
        "rejects": 6,
        "bytes_read": 20_000_000,
        "text_bytes": 50_000_000,
        "tokens": 14_000_000,
        "bytes_written": 28_000_000,
        "filtered": 14,
        "files": 1,
        "failed_files": 1,
        "reader_seconds": 0,
        "preprocess_seconds": 0,
        "tokenize_seconds": 5.0,
        "write_seconds": 0,
        "index_seconds": 0,
        "engine_errors": 1,
        "read_errors": 5,
        "worker_errors": 0,
        "input_bytes": 40_000_000,
        "input_files": 4,
        "queue_depth_reader": 5,
        "queue_depth_tok": 8,
    }


def test_a_line_of_progress_every_interval() -> None:
    seen, written = Seen(), threading.Event()
    with watched(seen, "error", interval=0.05) as (_, meter):
        plant(meter)
        while seen.events().count("progress") < 3:
            meter({"kind": "count", "tokens": 1})
            written.wait(0.01)
    assert set(seen.events()) == {"progress"}


@pytest.mark.parametrize("port", [None, 0])
def test_the_other_exporters_write_no_line_of_progress(port: int | None) -> None:
    seen = Seen()
    with watched(seen, "info", port=port, progress_lines=False) as (watch, meter):
        plant(meter)
        watch.look()
        assert (watch.port is None) == (port is None)
    assert [one for one in seen.events() if one != "serving"] == ["started", "stage", "finished"]


def test_log_lines_above_the_level() -> None:
    seen = Seen()
    with watched(seen) as (_, meter):
        log_event(meter, "info", "scanner", "scanned", files=3)
        log_event(meter, "warn", "tokenizer", "special_token_mismatch", error="<|a|>: 5, not 6")
        meter({"kind": "log", "level": "error", "component": "reader", "event": "e", "worker": 2})
    assert seen.events() == ["special_token_mismatch", "e"]
    assert seen.lines[1]["worker"] == 2


def test_a_stall_is_seen_by_the_log_and_by_the_health(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingot.cli.job_watch.measure_processes", dict)
    seen, wait = Seen(), threading.Event()
    with watched(seen, "info", port=0, stall_seconds=0.3, progress_lines=False) as (watch, meter):
        plant(meter)
        assert get(watch.port, "/healthz") == (200, '{"status": "ok"}\n')
        wait.wait(0.5)
        status, body = get(watch.port, "/healthz")
        assert status == 503
        assert json.loads(body)["reason"].startswith("stall: no progress for ")
        watch.look()
        assert scraped(watch.port)["healthy"] == 0
        meter(batch(31_000))
        meter({"kind": "count", "tokens": 1})
        assert get(watch.port, "/healthz")[0] == 200
    stalls = [one for one in seen.lines if one["event"].startswith("stall")]
    assert [one["event"] for one in stalls] == ["stall", "stall_over"]
    assert (stalls[0]["queue_depth_reader"], stalls[0]["queue_depth_tok"]) == (5, 8)


def test_failures_in_a_row_are_seen_by_the_log_and_by_the_health() -> None:
    seen = Seen()
    with watched(seen, port=0, error_streak=10) as (watch, meter):
        meter({"kind": "plan", "bytes": 1, "files": 1, "units": 1})
        meter({"kind": "count", "failed_records": 11, "records": 11})
        assert get(watch.port, "/healthz")[0] == 503
    assert (seen.lines[0]["event"], seen.lines[0]["level"]) == ("error_rate", "error")


def test_two_watches_know_nothing_of_each_other() -> None:
    with watched(Seen(), port=0) as (one, meter), watched(Seen(), port=0) as (other, _):
        plant(meter)
        assert scraped(one.port)["rows_total"] == 2000
        assert "rows_total" not in scraped(other.port)


@pytest.mark.more
def test_messages_from_many_threads_are_all_counted() -> None:
    seen = Seen()
    with watched(seen, "debug", port=0, progress_lines=False) as (watch, meter):
        meter({"kind": "plan", "bytes": 1, "files": 1, "units": 1})

        def send(worker: int) -> None:
            for n in range(500):
                meter({"kind": "count", "tokens": 3, "worker": worker})
                meter(batch(1.5))
                if n % 10 == 0:
                    log_event(meter, "debug", "writer", "written", tokens=n)

        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert scraped(watch.port)["tokens_total"] <= 12_000
        for thread in threads:
            thread.join()
        assert scraped(watch.port)["tokens_total"] == 12_000
        assert scraped(watch.port)["batch_latency_ms_count"] == 4000
    assert seen.events().count("written") == 400


def test_a_pipe_that_breaks_stops_nothing() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        log = LogStream(stream, "warn")
        with JobWatch("tokens build", Watching(log=log)) as watch:
            meter = BuildMeter(watch, log.log)
            log_event(meter, "warn", "pipeline", "heard")
            os.close(reading)
            log_event(meter, "warn", "pipeline", "unheard")
            plant(meter)
            watch.look()
    assert meter.counts["tokens"] == 14_000_000
    assert log.lost == 2  # and the line of progress


UNREAD = """
import sys
from ingot.cli.job_watch import JobWatch, Watching
from ingot.converters.megatron.messages import BuildMeter, log_event
from ingot.converters.output.monitoring import LogStream

log = LogStream(None, "warn")
with JobWatch("tokens build", Watching(log=log)) as watch:
    meter = BuildMeter(watch, log.log)
    log_event(meter, "warn", "pipeline", "begun")
    sys.stdin.readline()
    for n in range(1000):
        log_event(meter, "warn", "pipeline", "unheard", file_path="x" * 1000)
sys.exit(0 if log.lost == 1000 else 5)
"""


def test_a_process_whose_standard_output_goes_away_ends_as_if_it_had_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", UNREAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        assert json.loads(process.stdout.readline())["event"] == "begun"
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0
