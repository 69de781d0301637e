"""The state of a build as Prometheus's metrics and as the fields of a log line."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ingot.converters.megatron.watching.resources import MB, Sample
from ingot.converters.megatron.watching.summary import percentiles
from ingot.converters.megatron.watching.totals import Rates, Totals
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

_NAME: Final = "parquet2mbt"
_COUNTED: Final = {
    "bytes_read": ("bytes_read", "Bytes of the input files read, compressed"),
    "text_bytes": ("text_bytes", "Bytes of text tokenized"),
    "records": ("records", "Records read"),
    "documents": ("documents", "Documents written"),
    "tokens": ("tokens", "Tokens written"),
    "bytes_written": ("bytes_written", "Bytes written"),
    "failed_records": ("failed_records", "Records that could not be tokenized"),
    "filtered": ("filtered_records", "Records left out by the options"),
    "files": ("files", "Input files finished"),
    "failed_files": ("failed_files", "Input files that failed"),
    "units": ("units", "Units of work finished"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """All there is to export, at a time."""

    now: float
    totals: Totals
    rates: Rates
    sample: Sample
    trouble: str | None
    lost: int


def eta_seconds(totals: Totals, rates: Rates) -> float | None:
    """Seconds until all input is read at the rate of the last half minute, None if unknown."""
    left = totals.planned["bytes"] - totals.counts["bytes_read"]
    rate = rates.per_second("bytes_read")
    if totals.phase != "read" or not totals.planned["bytes"] or rate <= 0:
        return None
    return max(left, 0) / rate


def fields(state: State) -> dict[str, Json]:
    """The line `metrics` of the log: totals, rates, latencies in ms, queues, resources."""
    totals, rates, sample = state.totals, state.rates, state.sample
    reader, tokenizer = totals.depths()
    eta = eta_seconds(totals, rates)
    latencies = {
        f"latency_ms_{name}": None if ms is None else round(ms, 2)
        for name, ms in percentiles(totals).items()
    }
    return {
        "phase": totals.phase,
        **{name: totals.counts[name] for name in _COUNTED},
        "error_count": sum(totals.errors.values()),
        "read_MBps": round(rates.per_second("bytes_read") / MB, 3),
        "text_MBps": round(rates.per_second("text_bytes") / MB, 3),
        "tokens_per_sec": round(rates.per_second("tokens"), 1),
        **latencies,
        "queue_depth_reader": reader,
        "queue_depth_tok": tokenizer,
        "cpu_pct": round(sample.cpu_pct, 1),
        "mem_rss_bytes": sample.rss,
        "disk_read_MBps": round(sample.disk_read, 3),
        "disk_write_MBps": round(sample.disk_write, 3),
        "seconds": round(state.now - totals.started, 3),
        "eta_seconds": None if eta is None else round(eta, 1),
        **({"error": state.trouble} if state.trouble else {}),
    }


def registry_of(collect: Callable[[], Iterable["Metric"]]) -> "CollectorRegistry":
    """A registry of its own whose metrics are what `collect` gives when it is asked."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    class Asked(Collector):
        """Collects anew for every scrape."""

        def collect(self) -> Iterable["Metric"]:
            """The metrics now."""
            return collect()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Asked())
    return registry


def families(state: State) -> Iterator["Metric"]:
    """Every metric with its value."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    counts = state.totals.counts
    for name, (shown, said) in _COUNTED.items():
        yield CounterMetricFamily(f"{_NAME}_{shown}", said, value=counts[name])
    yield CounterMetricFamily(f"{_NAME}_log_lines_lost", "Lines of the log lost", value=state.lost)
    errors = CounterMetricFamily(f"{_NAME}_error", "Errors", labels=["type"])
    for kind, count in state.totals.errors.items():
        errors.add_metric([_label(kind)], count)
    yield errors
    stages = CounterMetricFamily(f"{_NAME}_stage_seconds", "Time in stages", labels=["stage"])
    for stage, seconds in state.totals.stages.items():
        stages.add_metric([_label(stage)], seconds)
    yield stages
    yield from _latencies(state.totals)
    for name, said, value in _gauges(state):
        yield GaugeMetricFamily(f"{_NAME}_{name}", said, value=value)


def _gauges(state: State) -> Iterator[tuple[str, str, float]]:
    """Name, help and value of what goes up and down."""
    totals, rates, sample = state.totals, state.rates, state.sample
    reader, tokenizer = totals.depths()
    read, text = rates.per_second("bytes_read") / MB, rates.per_second("text_bytes") / MB
    yield "read_mb_per_sec", "Compressed input over the last half minute, MB/s", read
    yield "text_mb_per_sec", "Text over the last half minute, MB/s", text
    yield "tokens_per_sec", "Tokens over the last half minute", rates.per_second("tokens")
    yield "queue_depth_reader", "Batches that wait to be tokenized", reader
    yield "queue_depth_tokenizer", "Tokenized batches that wait to be written", tokenizer
    yield "cpu_pct", "CPU of all processes, 100 = one core", sample.cpu_pct
    yield "mem_rss_bytes", "Memory of all processes", sample.rss
    yield "disk_read_mb_per_sec", "Read from the disk itself, MB/s", sample.disk_read
    yield "disk_write_mb_per_sec", "Written to the disk itself, MB/s", sample.disk_write
    yield "processes", "Processes at work", sample.processes
    yield "input_bytes", "Bytes of input there are to read", totals.planned["bytes"]
    yield "input_files", "Input files there are", totals.planned["files"]
    yield "run_seconds", "Seconds since the start", state.now - totals.started
    yield "healthy", "1 while the build is healthy", 0 if state.trouble else 1
    eta = eta_seconds(totals, rates)
    if eta is not None:
        yield "eta_seconds", "Seconds until all input is read", eta


def _latencies(totals: Totals) -> Iterator["Metric"]:
    """The histogram of batch latencies, and its percentiles for eyes."""
    from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

    seen = totals.latencies
    said = "Milliseconds that a batch took"
    name = f"{_NAME}_batch_latency_ms"
    yield HistogramMetricFamily(name, said, buckets=seen.buckets(), sum_value=seen.total)
    quantiles = GaugeMetricFamily(f"{_NAME}_batch_latency_quantile_ms", said, labels=["quantile"])
    for quantile, ms in percentiles(totals).items():
        if ms is not None:
            quantiles.add_metric([quantile], ms)
    yield quantiles


def _label(text: str) -> str:
    """A label's value as UTF-8 can hold it, of bounded length."""
    return text[:100].encode("utf-8", "backslashreplace").decode()
