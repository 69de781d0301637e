"""A watch as a build uses it: messages in; log, metrics, health, progress and summary out."""

import io
import json
import os
import pickle
import subprocess
import sys
import threading
from http.client import HTTPConnection
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.metrics.messages import log_event
from ingot.converters.megatron.metrics.summary import BuildMeasures
from ingot.converters.megatron.metrics.watch import BuildProgress, Watch
from ingot.converters.megatron.options import WatchOptions

NEVER = 1e6  # the thread of a watch that looks only when the test does


class Clock:
    """A clock that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Seen(io.BytesIO):
    """A log in memory."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]


def plant(watch: Watch) -> None:
    """Messages of two workers, among them every counter."""
    watch({"kind": "plan", "bytes": 40_000_000, "files": 4, "units": 8})
    watch({"kind": "phase", "phase": "read"})
    counts = {
        "bytes_read": 10_000_000,
        "text_bytes": 25_000_000,
        "records": 1000,
        "tokens": 7_000_000,
    }
    others = {"documents": 990, "failed_records": 3, "filtered": 7, "bytes_written": 14_000_000}
    for worker in (0, 1):
        watch({"kind": "count", **counts, **others, "worker": worker})
        watch({"kind": "depth", "reader": 2 + worker, "tokenizer": 4, "worker": worker})
        watch({"kind": "stage", "stage": "tokenize", "seconds": 2.5, "worker": worker})
    watch({"kind": "count", "files": 1, "units": 2, "error.bad_utf8": 5, "error.null_text": 1})
    watch({"kind": "count", "failed_files": 1})
    for ms in (3.0, 30.0, 300.0, 70_000.0):
        watch({"kind": "batch", "ms": ms})


def get(port: int | None, path: str) -> tuple[int, str]:
    assert port
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def scraped(port: int | None) -> dict[str, Any]:
    """Sample names, with labels where there are any, and values."""
    status, body = get(port, "/metrics")
    assert status == 200
    return {
        "".join((one.name, *(f"{{{n}={v}}}" for n, v in one.labels.items()))): one.value
        for family in text_string_to_metric_families(body)
        for one in family.samples
    }


def serving(seen: Seen, clock: Clock, **more: Any) -> WatchOptions:
    return WatchOptions(
        log_stream=seen,
        exporter="prometheus",
        interval=NEVER,
        host="127.0.0.1",
        port=0,
        clock=clock,
        **more,
    )


def test_every_metric_of_the_document_has_its_value() -> None:
    clock = Clock()
    with Watch(serving(Seen(), clock)) as watch:
        plant(watch)
        clock.now += 10
        watch.look(last=True)
        found = scraped(watch.port)
    expected = {
        "bytes_read_total": 20_000_000,
        "tokens_total": 14_000_000,
        "records_total": 2000,
        "read_mb_per_sec": 2,
        "tokens_per_sec": 1_400_000,
        "batch_latency_ms_count": 4,
        "batch_latency_ms_sum": 70_333,
        "batch_latency_ms_bucket{le=2.5}": 0,
        "batch_latency_ms_bucket{le=5.0}": 1,
        "batch_latency_ms_bucket{le=50.0}": 2,
        "batch_latency_ms_bucket{le=60000.0}": 3,
        "batch_latency_ms_bucket{le=+Inf}": 4,
        "queue_depth_reader": 5,
        "queue_depth_tokenizer": 8,
        "error_total{type=bad_utf8}": 5,
        "error_total{type=null_text}": 1,
        "failed_records_total": 6,
        "documents_total": 1980,
        "text_bytes_total": 50_000_000,
        "bytes_written_total": 28_000_000,
        "filtered_records_total": 14,
        "files_total": 1,
        "failed_files_total": 1,
        "units_total": 2,
        "stage_seconds_total{stage=tokenize}": 5,
        "input_bytes": 40_000_000,
        "input_files": 4,
        "eta_seconds": 10,
        "run_seconds": 10,
        "healthy": 1,
        "log_lines_lost_total": 0,
    }
    values = {name: found[f"parquet2mbt_{name}"] for name in expected}
    assert values == pytest.approx(expected)
    assert found["parquet2mbt_batch_latency_quantile_ms{quantile=p50}"] == pytest.approx(
        30, rel=0.01
    )
    assert found["parquet2mbt_mem_rss_bytes"] > 10_000_000
    for name in ("cpu_pct", "disk_read_mb_per_sec", "disk_write_mb_per_sec"):
        assert found[f"parquet2mbt_{name}"] >= 0


def test_the_line_of_metrics_has_every_field() -> None:
    seen, clock = Seen(), Clock()
    options = WatchOptions(log_level="error", log_stream=seen, interval=NEVER, clock=clock)
    with Watch(options) as watch:
        plant(watch)
        clock.now += 10
    (line,) = seen.lines
    named = {name: line.pop(name) for name in ("ts", "cpu_pct", "mem_rss_bytes")}
    assert named["mem_rss_bytes"] > 10_000_000
    assert line.pop("disk_read_MBps") >= 0
    assert line.pop("disk_write_MBps") >= 0
    latencies = [line.pop(f"latency_ms_{share}") for share in ("p50", "p90", "p99")]
    assert latencies == pytest.approx([30, 70_000, 70_000], rel=0.01)
    assert line == {
        "level": "info",
        "component": "pipeline",
        "event": "metrics",
        "phase": "read",
        "bytes_read": 20_000_000,
        "text_bytes": 50_000_000,
        "records": 2000,
        "documents": 1980,
        "tokens": 14_000_000,
        "bytes_written": 28_000_000,
        "failed_records": 6,
        "filtered": 14,
        "files": 1,
        "failed_files": 1,
        "units": 2,
        "error_count": 6,
        "read_MBps": 2.0,
        "text_MBps": 5.0,
        "tokens_per_sec": 1_400_000.0,
        "queue_depth_reader": 5,
        "queue_depth_tok": 8,
        "seconds": 10.0,
        "eta_seconds": 10.0,
    }


def test_a_line_of_metrics_every_interval() -> None:
    seen, clock = Seen(), Clock()
    watch = Watch(WatchOptions(log_stream=seen, interval=5.0, clock=clock))
    for _ in range(21):
        watch.look()
        clock.now += 1
    assert seen.events() == ["metrics"] * 4


@pytest.mark.parametrize("exporter", ["none", "prometheus"])
def test_the_other_exporters_write_no_line(exporter: Any) -> None:
    seen = Seen()
    options = WatchOptions(log_stream=seen, exporter=exporter, host="127.0.0.1", port=0)
    with Watch(options) as watch:
        plant(watch)
        assert (watch.port is None) == (exporter == "none")
    assert seen.lines == []


def test_log_lines_above_the_level() -> None:
    seen = Seen()
    watch = Watch(WatchOptions(log_level="warn", log_stream=seen))
    log_event(watch, "info", "scanner", "scanned", files=3)
    log_event(watch, "warn", "tokenizer", "special_token_mismatch", error="<|a|>: 5, not 6")
    watch({"kind": "log", "level": "error", "component": "reader", "event": "e", "worker": 2})
    assert seen.events() == ["special_token_mismatch", "e"]
    assert seen.lines[1]["worker"] == 2


def test_a_stall_is_seen_by_the_log_and_by_the_health() -> None:
    seen, clock = Seen(), Clock()
    with Watch(serving(seen, clock, stall_seconds=30)) as watch:
        plant(watch)
        assert get(watch.port, "/healthz") == (200, '{"status": "ok"}\n')
        clock.now += 31
        status, body = get(watch.port, "/healthz")
        assert status == 503
        assert json.loads(body)["reason"].startswith("stall: no batch went through for 31 s; 8 ")
        watch.look()
        assert scraped(watch.port)["parquet2mbt_healthy"] == 0
        watch({"kind": "batch", "ms": 31_000})
        assert get(watch.port, "/healthz")[0] == 200
        assert scraped(watch.port)["parquet2mbt_healthy"] == 1
    assert seen.events() == ["stall", "stall_over"]


def test_failures_in_a_row_are_seen_by_the_log_and_by_the_health() -> None:
    seen = Seen()
    with Watch(serving(seen, Clock(), error_streak=10)) as watch:
        watch({"kind": "count", "failed_records": 11})
        assert get(watch.port, "/healthz")[0] == 503
    assert seen.lines[0]["event"] == "error_rate"
    assert seen.lines[0]["level"] == "error"


def test_two_watches_know_nothing_of_each_other() -> None:
    clock = Clock()
    with Watch(serving(Seen(), clock)) as one, Watch(serving(Seen(), clock)) as other:
        plant(one)
        assert scraped(one.port)["parquet2mbt_records_total"] == 2000
        assert scraped(other.port)["parquet2mbt_records_total"] == 0


def test_a_taken_port_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    with Watch(serving(Seen(), Clock())) as watch:
        options = WatchOptions(exporter="prometheus", host="127.0.0.1", port=watch.port or 0)
        with pytest.raises(ConversionError, match="another port"), Watch(options):
            pass
    assert set(threading.enumerate()) <= before


@pytest.mark.more
def test_messages_from_many_threads_are_all_counted() -> None:
    seen = Seen()
    with Watch(serving(seen, Clock(), log_level="debug")) as watch:

        def send(worker: int) -> None:
            for n in range(500):
                watch({"kind": "count", "tokens": 3, "worker": worker})
                watch({"kind": "batch", "ms": 1.5})
                if n % 10 == 0:
                    log_event(watch, "debug", "writer", "written", tokens=n)

        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert scraped(watch.port)["parquet2mbt_tokens_total"] <= 12_000
        for thread in threads:
            thread.join()
        assert scraped(watch.port)["parquet2mbt_tokens_total"] == 12_000
        assert scraped(watch.port)["parquet2mbt_batch_latency_ms_count"] == 4000
    assert len(seen.lines) == 400


def test_a_pipe_that_breaks_stops_nothing() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        with Watch(WatchOptions(log_stream=stream, interval=NEVER)) as watch:
            log_event(watch, "info", "pipeline", "started")
            os.close(reading)
            log_event(watch, "info", "pipeline", "unheard")
            plant(watch)
        summary = watch.summary()
    assert summary.tokens == 14_000_000
    assert summary.log_lines_lost == 2  # and the line of metrics at the end


UNREAD = """
import sys
from ingot.converters.megatron.metrics.messages import log_event
from ingot.converters.megatron.metrics.watch import Watch
from ingot.converters.megatron.options import WatchOptions

with Watch(WatchOptions()) as watch:
    log_event(watch, "info", "pipeline", "started")
    sys.stdin.readline()
    for n in range(1000):
        log_event(watch, "info", "pipeline", "unheard", file_path="x" * 1000)
summary = watch.summary()
watch.summary_log(summary)
sys.exit(0 if summary.log_lines_lost == 1001 else 5)
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
        assert json.loads(process.stdout.readline())["event"] == "started"
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_progress_is_told_by_the_thread_and_ends_with_the_terminal() -> None:
    told: list[BuildProgress] = []
    drawn = threading.Event()

    def draw(progress: BuildProgress) -> None:
        told.append(progress)
        if progress.records:
            drawn.set()
            raise BrokenPipeError

    with Watch(WatchOptions(log_stream=Seen(), progress=draw)) as watch:
        plant(watch)
        assert drawn.wait(60)
        count = len(told)
        watch.look()
        assert len(told) == count
    last = told[-1]
    assert (last.phase, last.bytes_read, last.bytes_total) == ("read", 20_000_000, 40_000_000)
    assert (last.records, last.tokens, last.trouble) == (2000, 14_000_000, None)


def test_the_summary_and_its_line() -> None:
    seen, clock = Seen(), Clock()
    watch = Watch(WatchOptions(log_level="error", log_stream=seen, clock=clock))
    plant(watch)
    clock.now += 4
    summary = watch.summary(BuildMeasures(engine="hf", disk_mbps=10.0))
    watch.summary_log(summary)
    (line,) = seen.lines
    assert line["event"] == "summary"
    assert {name: line[name] for name in summary.to_document()} == summary.to_document()
    assert line["wall_seconds"] == 4
    assert line["speed"]["disk_share"] == 0.5
    assert line["peak_rss_bytes"] >= psutil.Process().memory_info().rss / 2
    assert pickle.loads(pickle.dumps(summary)) == summary
