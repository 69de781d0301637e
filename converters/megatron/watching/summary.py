"""What a build did, in one value: amounts, rates, time by stage."""

from dataclasses import asdict, dataclass

from ingot.converters.megatron.watching.resources import MB
from ingot.converters.megatron.watching.totals import Totals
from ingot.converters.rows import Json

PERCENTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTime:
    """Seconds in a stage, over all threads and processes, and their share of all stages' (0-1)."""

    stage: str
    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """Rates of a whole run, and what they are of what the machine could do.

    Attributes:
        read_mbps: compressed input, MB/s (10^6 bytes) of wall time.
        text_mbps: tokenized text, MB/s of wall time.
        tokens_per_sec: of wall time.
        engine_mbps: what the fastest exact engine does with text in memory, if it was measured.
        engine_share: of that, what the build kept up while it read; None where unknown.
        disk_mbps, disk_share: the same of the disk's sequential reading and the compressed input.
    """

    read_mbps: float
    text_mbps: float
    tokens_per_sec: float
    engine_mbps: float | None
    engine_share: float | None
    disk_mbps: float | None
    disk_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A finished (or stopped) build.

    Attributes:
        wall_seconds: since the watch began.
        phases: wall seconds by phase: `start`, `read`, `merge`.
        files, failed_files: of the input.
        bytes_read: of the input files, compressed; text_bytes: tokenized.
        records, documents, tokens, bytes_written: done.
        rejected: records that failed; filtered: those left out by the options.
        errors: by type.
        stages: in the order of the pipeline.
        latency_ms: of batches: `p50`, `p90`, `p99`, None without batches.
        peak_rss_bytes: the most memory seen, of all processes together.
        engine: that tokenized, None if the caller did not say.
        log_lines_lost: that the log's stream did not take.
    """

    wall_seconds: float
    phases: dict[str, float]
    files: int
    failed_files: int
    bytes_read: int
    text_bytes: int
    records: int
    documents: int
    tokens: int
    bytes_written: int
    rejected: int
    filtered: int
    errors: dict[str, int]
    speed: Speed
    stages: tuple[StageTime, ...]
    latency_ms: dict[str, float | None]
    peak_rss_bytes: int
    engine: str | None
    log_lines_lost: int

    def to_document(self) -> dict[str, Json]:
        """As JSON; seconds, rates and shares with 3 digits behind the point."""
        rounded: dict[str, Json] = _rounded(asdict(self))
        return rounded


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a summary says that no message did.

    Attributes:
        engine: that tokenized.
        engine_mbps: MB/s of text of the fastest exact engine in memory, all its processes together.
        disk_mbps: MB/s of sequential reading from the disk of the input.
    """

    engine: str | None = None
    engine_mbps: float | None = None
    disk_mbps: float | None = None


def summarize(totals: Totals, now: float, measured: Measured, *, peak: int, lost: int) -> Summary:
    """The summary of what the messages add up to at a time.

    Args:
        totals: of the messages.
        now: on the clock of `totals`.
        measured: what the caller knows besides.
        peak: bytes of memory.
        lost: lines of the log.
    """
    counts = totals.counts
    return Summary(
        wall_seconds=now - totals.started,
        phases=totals.phases(now),
        files=counts["files"],
        failed_files=counts["failed_files"],
        bytes_read=counts["bytes_read"],
        text_bytes=counts["text_bytes"],
        records=counts["records"],
        documents=counts["documents"],
        tokens=counts["tokens"],
        bytes_written=counts["bytes_written"],
        rejected=counts["failed_records"],
        filtered=counts["filtered"],
        errors=dict(sorted(totals.errors.items())),
        speed=_speed(totals, now, measured),
        stages=_stages(totals.stages),
        latency_ms=percentiles(totals),
        peak_rss_bytes=peak,
        engine=measured.engine,
        log_lines_lost=lost,
    )


def percentiles(totals: Totals) -> dict[str, float | None]:
    """The latencies of batches in ms: `p50`, `p90`, `p99`."""
    return {f"p{share * 100:.0f}": totals.latencies.percentile(share) for share in PERCENTILES}


def _speed(totals: Totals, now: float, measured: Measured) -> Speed:
    """The rates of the run."""
    wall = max(now - totals.started, 1e-9)
    reading = max(totals.phases(now).get("read", wall), 1e-9)
    read, text = totals.counts["bytes_read"] / MB, totals.counts["text_bytes"] / MB
    return Speed(
        read_mbps=read / wall,
        text_mbps=text / wall,
        tokens_per_sec=totals.counts["tokens"] / wall,
        engine_mbps=measured.engine_mbps,
        engine_share=_share(text / reading, measured.engine_mbps),
        disk_mbps=measured.disk_mbps,
        disk_share=_share(read / reading, measured.disk_mbps),
    )


def _share(part: float, whole: float | None) -> float | None:
    """The share, None of nothing."""
    return part / whole if whole else None


def _stages(seconds: dict[str, float]) -> tuple[StageTime, ...]:
    """Every stage with its share."""
    whole = sum(seconds.values()) or 1.0
    return tuple(StageTime(stage=s, seconds=t, share=t / whole) for s, t in seconds.items())


def _rounded(value: Json) -> Json:
    """The value with its floats rounded."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return round(value, 3) if isinstance(value, float) else value
