"""Show a token build on a terminal: the bar while it runs, and its summary at the end."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingot.cli.console import MoveBar, plain_text, safe_text
from ingot.converters.json_yaml import map_leaves
from ingot.converters.megatron.messages import ERRORS, STAGES, BuildMeter
from ingot.converters.progress import JobMeasures

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.cli.job_watch import JobState

MB: Final = 1_000_000
_UNITS: Final = ("", "k", "M", "G", "T", "P")
_BAR: Final = 24
_EIGHTHS: Final = "▏▎▍▌▋▊▉"


def draw_progress(move: MoveBar, state: "JobState") -> None:
    """Draw how far a build is: bytes of its input while it reads, else what it does."""
    measures = state.progress.measures if state.progress else JobMeasures()
    trouble = state.trouble
    is_reading = measures.phase == "read"
    total = measures.values["input_bytes"] if is_reading else 0
    done = min(measures.amounts["bytes_read"], total) if is_reading else 0
    name = f"[red]{trouble.alarm}[/]" if trouble else measures.phase or "start"
    move(name, done, total or None, progress_text(state))


def progress_text(state: "JobState") -> str:
    """Return amounts, rates and the time left; nothing before there is any progress."""
    if state.progress is None:
        return ""
    known = state.progress.measures
    parts = [
        _bytes_of_total(known.amounts["bytes_read"], known.values["input_bytes"]),
        f"{amount_text(state.progress.rows)} records",
        f"{amount_text(known.amounts['tokens'])} tokens",
        f"{amount_text(state.rates.get('tokens', 0.0))}/s",
    ]
    if state.seconds_left is not None:
        parts.append(f"{clock_text(state.seconds_left)} left")
    return "  ".join(parts)


def amount_text(number: float, gap: str = "") -> str:
    """Return a number in four or five characters: 999, 1.23k, 12.3M; a gap before the unit."""
    power = 0
    while number >= 999.5 and power < len(_UNITS) - 1:
        number, power = number / 1000, power + 1
    if not power:
        return f"{number:.0f}{gap}"
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f}{gap}{_UNITS[power]}"


def clock_text(seconds: float) -> str:
    """Return a time: 0:07, 12:34, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
class BuildMeasures:
    """What a summary says that no message did."""

    wall_seconds: float
    engine: str | None = None  # that tokenized, None if it is not known
    disk_mbps: float | None = None  # MB/s of sequential reading from the disk of the input
    peak_rss_bytes: int = 0
    log_lines_lost: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildSummary(BuildMeasures):
    """A finished (or stopped) build."""

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

    def to_document(self) -> dict[str, object]:
        """Return it as JSON; seconds, rates and shares with 3 digits behind the point."""
        document: dict[str, object] = map_leaves(
            asdict(self), lambda one: round(one, 3) if isinstance(one, float) else one
        )
        return document


def summarize_build(meter: BuildMeter, measured: BuildMeasures) -> BuildSummary:
    """Summarize what the messages of a build add up to."""
    counts, phases = meter.counts, meter.phases()
    spent: dict[str, float] = {stage: counts[f"{stage}_seconds"] for stage in STAGES}
    total = sum(spent.values()) or 1.0
    same = ("files", "failed_files", "bytes_read", "text_bytes", "records", "documents", "tokens")
    amounts: dict[str, Any] = {name: counts[name] for name in (*same, "bytes_written", "filtered")}
    return BuildSummary(
        **asdict(measured),
        **amounts,
        phases=phases,
        rejected=counts["failed_records"],
        errors={kind: number for kind in ERRORS if (number := counts[f"{kind}_errors"])},
        speed=_run_speed(counts, phases, measured),
        stages=tuple(
            StageTime(stage=stage, seconds=seconds, share=seconds / total)
            for stage, seconds in spent.items()
        ),
        latency_ms={f"p{share}": meter.batches.percentile(share / 100) for share in (50, 90, 99)},
    )


def _run_speed(
    counts: Mapping[str, int], phases: Mapping[str, float], measured: BuildMeasures
) -> RunSpeed:
    wall = max(measured.wall_seconds, 1e-9)
    reading = max(phases.get("read", wall), 1e-9)
    read, disk = counts["bytes_read"] / MB, measured.disk_mbps
    return RunSpeed(
        read_mbps=read / wall,
        text_mbps=counts["text_bytes"] / MB / wall,
        tokens_per_sec=counts["tokens"] / wall,
        disk_mbps=disk,
        disk_share=read / reading / disk if disk else None,
    )


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
    buffer = bytearray(_BLOCK)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started, done, took = time.perf_counter(), 0, 0.0
        while took < seconds and (size := file.readinto(buffer)):
            done, took = done + size, time.perf_counter() - started
    return done, took


def print_summary(console: "Console", summary: "BuildSummary") -> None:
    """Print what was done, how fast, and where the time went."""
    from rich.table import Table

    rows = [*_amount_rows(summary), *_stage_rows(summary, ascii_only=console.options.ascii_only)]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name, value, remark in rows:
        table.add_row(plain_text(name), plain_text(value), plain_text(remark))
    with console.capture() as capture:
        console.print(table)
    console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _bytes_of_total(done: float, total: float) -> str:
    largest, power = max(done, total), 2
    while largest >= 10 * 1000 ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    amounts = [f"{one / 1000**power:,.1f}" for one in ((done, total) if total else (done,))]
    return f"{'/'.join(amounts)} {_UNITS[power]}B"


def _amount_rows(summary: "BuildSummary") -> list[tuple[str, str, str]]:
    speed, left_out = summary.speed, {"rejected": summary.rejected, "filtered": summary.filtered}
    engine_text = f" by {safe_text(summary.engine)}" if summary.engine else ""
    share = _share_text(speed.disk_share, speed.disk_mbps)
    known = [f"{n} {ms:,.0f} ms" for n, ms in summary.latency_ms.items() if ms is not None]
    errors = ", ".join(f"{n:,} {kind}" for kind, n in summary.errors.items())
    phases = ", ".join(f"{name} {_seconds_text(s)}" for name, s in summary.phases.items())
    rows = [
        ("files", f"{summary.files:,}", _nonzero_text({"failed": summary.failed_files})),
        ("records", f"{summary.records:,}", _nonzero_text(left_out)),
        ("documents", f"{summary.documents:,}", ""),
        (
            "tokens",
            f"{summary.tokens:,}",
            f"{amount_text(speed.tokens_per_sec)} tokens/s{engine_text}",
        ),
        ("text", _bytes_text(summary.text_bytes), f"{speed.text_mbps:,.1f} MB/s"),
        ("input", _bytes_text(summary.bytes_read), f"{speed.read_mbps:,.1f} MB/s{share}"),
        ("memory", _bytes_text(summary.peak_rss_bytes), "at most, of all processes"),
        ("batches", "", ", ".join(known)),
        ("errors", "", errors),
        ("time", _seconds_text(summary.wall_seconds), phases),
    ]
    return [row for row in rows if any(row[1:])]


def _nonzero_text(counts: "dict[str, int]") -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _stage_rows(summary: "BuildSummary", *, ascii_only: bool) -> Iterator[tuple[str, str, str]]:
    """Yield name, seconds and a small bar of every stage, over all threads."""
    yield "stages", _seconds_text(sum(one.seconds for one in summary.stages)), "of all threads"
    for one in summary.stages:
        bar = "#" * round(one.share * _BAR) if ascii_only else _fine_bar(one.share)
        yield f"  {one.stage}", _seconds_text(one.seconds), f"{100 * one.share:3.0f} %  {bar}"


def _fine_bar(share: float) -> str:
    full_blocks, eighths = divmod(round(share * _BAR * 8), 8)
    return "█" * full_blocks + (_EIGHTHS[eighths - 1] if eighths else "")


def _share_text(share: float | None, disk_mbps: float | None) -> str:
    """Return what part of the disk's speed the reading phase reached; empty where unknown."""
    if share is None:
        return ""
    disk = "the disk's sequential reading"
    return f"; in the reading phase {100 * share:.0f} % of {disk} ({disk_mbps:,.0f} MB/s)"


def _bytes_text(number: int) -> str:
    return f"{amount_text(number, ' ')}B"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 59.95 else clock_text(seconds)
