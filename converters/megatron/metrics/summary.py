"""Measure the machine under a build; show its state as summary, metrics and fields of the log."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ingot.converters.json_yaml import map_leaves
from ingot.converters.megatron.metrics.messages import COUNTERS, MessageTotals, Rates
from ingot.converters.output.monitoring import MetricKind, make_metric
from ingot.converters.progress import ProcessUse, measure_processes, peak_rss

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MB: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceSample:
    """Use of the machine over the time since the sample before."""

    cpu_pct: float = 0.0  # 100 = one core busy all the time
    rss: int = 0  # bytes in memory now; pages that processes share count in each
    # disk_read, disk_write: MB/s from and to the disk itself (what the page cache serves is not
    # in it); 0 where the system does not say
    disk_read: float = 0.0
    disk_write: float = 0.0
    processes: int = 1


class Resources:
    """Samples this process and its children."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.peak_rss = 0
        self._clock = clock
        self._at = clock()
        self._before = measure_processes()

    def sample(self) -> ResourceSample:
        """Look now. A process that ended since the sample before is left out of the rates."""
        now, spent = self._clock(), measure_processes()
        seconds = max(now - self._at, 1e-9)
        pairs = [(one, self._before.get(key, _UNUSED)) for key, one in spent.items()]
        cpu, read, written = (
            sum(one[i] - was[i] for one, was in pairs) / seconds for i in range(3)
        )
        self._at, self._before = now, spent
        rss = sum(one.memory for one in spent.values())
        self.peak_rss = max(self.peak_rss, rss, peak_rss())
        return ResourceSample(
            cpu_pct=100 * cpu,
            rss=rss,
            disk_read=read / MB,
            disk_write=written / MB,
            processes=len(spent),
        )


_UNUSED: Final = ProcessUse(0.0, 0, 0, 0)
_SECONDS: Final = 0.5
_LEAST_BYTES: Final = 32 << 20
_BLOCK: Final = 4 << 20


def measure_sequential_mbps(files: Iterable[Path], *, least: int = _LEAST_BYTES) -> float | None:
    """MB/s (10^6 bytes) of reading the files one after the other, for half a second at most.

    The system is asked to forget what it holds of a file first, so that it is the disk that is
    measured; a file system that does not do so shows the speed of its cache.
    """
    if not hasattr(os, "posix_fadvise"):
        return None
    done, seconds = 0, 0.0
    with suppress(OSError):
        for path in files:
            size, took = _read_for(path, _SECONDS - seconds)
            done, seconds = done + size, seconds + took
            if seconds >= _SECONDS:
                break
    return done / MB / seconds if done >= least and seconds else None


def _read_for(path: Path, seconds: float) -> tuple[int, float]:
    room = bytearray(_BLOCK)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begun, done, took = time.perf_counter(), 0, 0.0
        while took < seconds and (size := file.readinto(room)):
            done, took = done + size, time.perf_counter() - begun
    return done, took


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTime:
    """Seconds in a stage, over all threads and processes, and their share of all stages' (0-1)."""

    stage: str
    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpeed:
    """Rates of a whole run, and what they are of what the machine could do; None = unknown."""

    read_mbps: float  # compressed input, MB/s (10^6 bytes) of wall time
    text_mbps: float
    tokens_per_sec: float
    disk_mbps: float | None  # the disk's sequential reading
    disk_share: float | None  # of that, what the build kept up with the compressed input


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildSummary:
    """A finished (or stopped) build."""

    wall_seconds: float
    phases: dict[str, float]  # wall seconds by phase: `start`, `read`, `merge`
    files: int
    failed_files: int
    bytes_read: int  # of the input files, compressed
    text_bytes: int  # tokenized
    records: int
    documents: int
    tokens: int
    bytes_written: int
    rejected: int  # records that failed
    filtered: int  # those left out by the options
    errors: dict[str, int]
    speed: RunSpeed
    stages: tuple[StageTime, ...]
    latency_ms: dict[str, float | None]  # of batches: `p50`, `p90`, `p99`, None without batches
    peak_rss_bytes: int
    engine: str | None  # that tokenized, None if the caller did not say
    log_lines_lost: int

    def to_document(self) -> dict[str, object]:
        """As JSON; seconds, rates and shares with 3 digits behind the point."""
        shown: dict[str, object] = map_leaves(
            asdict(self), lambda one: round(one, 3) if isinstance(one, float) else one
        )
        return shown


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildMeasures:
    """What a summary says that no message did."""

    engine: str | None = None
    disk_mbps: float | None = None  # MB/s of sequential reading from the disk of the input


def summarize_build(
    totals: MessageTotals, now: float, measured: BuildMeasures, *, peak: int, lost: int
) -> BuildSummary:
    """The summary of what the messages add up to at a time."""
    counts, whole = totals.counts, sum(totals.stages.values()) or 1.0
    same = ("files", "failed_files", "bytes_read", "text_bytes", "records", "documents", "tokens")
    return BuildSummary(
        wall_seconds=now - totals.started,
        phases=totals.phases(now),
        **{name: counts[name] for name in (*same, "bytes_written", "filtered")},
        rejected=counts["failed_records"],
        errors=dict(sorted(totals.errors.items())),
        speed=_run_speed(totals, now, measured),
        stages=tuple(
            StageTime(stage=stage, seconds=spent, share=spent / whole)
            for stage, spent in totals.stages.items()
        ),
        latency_ms=latency_percentiles(totals),
        peak_rss_bytes=peak,
        engine=measured.engine,
        log_lines_lost=lost,
    )


def latency_percentiles(totals: MessageTotals) -> dict[str, float | None]:
    """The latencies of batches in ms: `p50`, `p90`, `p99`."""
    return {f"p{share}": totals.latencies.percentile(share / 100) for share in (50, 90, 99)}


def _run_speed(totals: MessageTotals, now: float, measured: BuildMeasures) -> RunSpeed:
    wall = max(now - totals.started, 1e-9)
    reading = max(totals.phases(now).get("read", wall), 1e-9)
    read, disk = totals.counts["bytes_read"] / MB, measured.disk_mbps
    return RunSpeed(
        read_mbps=read / wall,
        text_mbps=totals.counts["text_bytes"] / MB / wall,
        tokens_per_sec=totals.counts["tokens"] / wall,
        disk_mbps=disk,
        disk_share=read / reading / disk if disk else None,
    )


_METRIC_PREFIX: Final = "parquet2mbt"


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsState:
    """All there is to export, at a time."""

    now: float
    totals: MessageTotals
    rates: Rates
    sample: ResourceSample
    trouble: str | None
    lost: int


def eta_seconds(totals: MessageTotals, rates: Rates) -> float | None:
    """Seconds until all input is read at the rate of the last half minute, None if unknown."""
    left = totals.planned["bytes"] - totals.counts["bytes_read"]
    rate = rates.per_second("bytes_read")
    if totals.phase != "read" or not totals.planned["bytes"] or rate <= 0:
        return None
    return max(left, 0) / rate


class _Gauge(NamedTuple):
    name: str  # of the metric
    text: str
    value: float | None
    field: str = ""  # of the log line; empty = not in it
    digits: int | None = None


def _read_gauges(state: MetricsState) -> list[_Gauge]:
    totals, rates, sample = state.totals, state.rates, state.sample
    reader, tokenizer = totals.depths()
    read, text = rates.per_second("bytes_read") / MB, rates.per_second("text_bytes") / MB
    tokens, half = rates.per_second("tokens"), "over the last half minute"
    seconds, eta = state.now - totals.started, eta_seconds(totals, rates)
    planned, disk = totals.planned, "the disk itself, MB/s"
    return [
        _Gauge("read_mb_per_sec", f"Compressed input {half}, MB/s", read, "read_MBps", 3),
        _Gauge("text_mb_per_sec", f"Text {half}, MB/s", text, "text_MBps", 3),
        _Gauge("tokens_per_sec", f"Tokens {half}", tokens, "tokens_per_sec", 1),
        _Gauge(
            "queue_depth_reader", "Batches that wait to be tokenized", reader, "queue_depth_reader"
        ),
        _Gauge(
            "queue_depth_tokenizer",
            "Tokenized batches that wait to be written",
            tokenizer,
            "queue_depth_tok",
        ),
        _Gauge("cpu_pct", "CPU of all processes, 100 = one core", sample.cpu_pct, "cpu_pct", 1),
        _Gauge("mem_rss_bytes", "Memory of all processes", sample.rss, "mem_rss_bytes"),
        _Gauge("disk_read_mb_per_sec", f"Read from {disk}", sample.disk_read, "disk_read_MBps", 3),
        _Gauge(
            "disk_write_mb_per_sec", f"Written to {disk}", sample.disk_write, "disk_write_MBps", 3
        ),
        _Gauge("processes", "Processes at work", sample.processes),
        _Gauge("input_bytes", "Bytes of input there are to read", planned["bytes"]),
        _Gauge("input_files", "Input files there are", planned["files"]),
        _Gauge("run_seconds", "Seconds since the start", seconds, "seconds", 3),
        _Gauge("healthy", "1 while the build is healthy", 0 if state.trouble else 1),
        _Gauge("eta_seconds", "Seconds until all input is read", eta, "eta_seconds", 1),
    ]


def metric_fields(state: MetricsState) -> dict[str, object]:
    """The line `metrics` of the log: totals, rates, latencies in ms, queues, resources."""
    totals = state.totals
    shown = [
        (one.field, one.value if one.value is None else round(one.value, one.digits))
        for one in _read_gauges(state)
        if one.field
    ]
    latencies = {
        f"latency_ms_{name}": None if ms is None else round(ms, 2)
        for name, ms in latency_percentiles(totals).items()
    }
    return {
        "phase": totals.phase,
        **{name: totals.counts[name] for name in COUNTERS},
        "error_count": sum(totals.errors.values()),
        **dict(shown[:3]),
        **latencies,
        **dict(shown[3:]),
        **({"error": state.trouble} if state.trouble else {}),
    }


def metric_families(state: MetricsState) -> Iterator["Metric"]:
    """Every metric with its value."""
    from prometheus_client.core import HistogramMetricFamily as Histogram

    def labelled(
        kind: MetricKind, name: str, text: str, label: str, values: Mapping[str, float | None]
    ) -> "Metric":
        shown = [((text,), value) for text, value in values.items()]
        return make_metric(kind, f"{_METRIC_PREFIX}_{name}", text, shown, (label,))

    def single(kind: MetricKind, name: str, text: str, value: float | None) -> "Metric":
        return make_metric(kind, f"{_METRIC_PREFIX}_{name}", text, [((), value)])

    totals, seen = state.totals, state.totals.latencies
    for name, text in COUNTERS.items():
        shown = "filtered_records" if name == "filtered" else name
        yield single("counter", shown, text, totals.counts[name])
    yield single("counter", "log_lines_lost", "Lines of the log lost", state.lost)
    yield labelled("counter", "error", "Errors", "type", totals.errors)
    yield labelled("counter", "stage_seconds", "Time in stages", "stage", totals.stages)
    text = "Milliseconds that a batch took"
    name = f"{_METRIC_PREFIX}_batch_latency_ms"
    yield Histogram(name, text, buckets=seen.buckets(), sum_value=seen.total)
    percentiles = latency_percentiles(totals)
    yield labelled("gauge", "batch_latency_quantile_ms", text, "quantile", percentiles)
    for one in _read_gauges(state):
        if one.value is not None:
            yield single("gauge", one.name, one.text, one.value)
