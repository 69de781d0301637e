"""A token build on a terminal: the progress bar while it runs, the summary behind it."""

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, cast

from ingot.cli.console import notes, plain, safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from ingot.converters.megatron.watching.summary import StageTime, Summary
    from ingot.converters.megatron.watching.watch import Progress

    Buffer = bytes | bytearray | memoryview

_UNITS: Final = ("", "k", "M", "G", "T", "P")
_BAR: Final = 24
_EIGHTHS: Final = "▏▎▍▌▋▊▉"
_ERASE: Final = "\r\x1b[2K"


@dataclass(frozen=True, kw_only=True, slots=True)
class Meter:
    """What a `Watch` is given where a progress bar may be shown.

    Attributes:
        progress: draws the bar, None where there is none.
        log_stream: standard output that does not write into the bar, None where any will do.
    """

    progress: "Callable[[Progress], None] | None" = None
    log_stream: IO[bytes] | None = None


@contextmanager
def token_meter(*, shown: bool = True) -> Iterator[Meter]:
    """The bar of a build, on stderr and only if that is a terminal; leave the watch before it.

    Args:
        shown: False = no bar anywhere.
    """
    if not (shown and sys.stderr.isatty()):
        yield Meter()
        return
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[said]}"))
    bar = Bar(
        *columns,
        console=notes(),
        auto_refresh=False,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    lock = threading.Lock()
    above = _AboveBar(bar, lock) if sys.stdout.isatty() else None
    try:
        yield Meter(progress=_drawing(bar, lock), log_stream=cast("IO[bytes] | None", above))
    finally:
        with lock:
            bar.stop()


def said(progress: "Progress") -> str:
    """The amounts of the progress, rates and time left."""
    parts = [
        _of(progress.bytes_read, progress.bytes_total),
        f"{amount(progress.records)} records",
        f"{amount(progress.tokens)} tokens",
        f"{amount(progress.tokens_per_sec)}/s",
    ]
    if progress.eta is not None:
        parts.append(f"{clock(progress.eta)} left")
    return "  ".join(parts)


def amount(number: float) -> str:
    """A number in four characters or five: 999, 1.23k, 12.3M."""
    power = 0
    while number >= 999.5 and power < len(_UNITS) - 1:
        number, power = number / 1000, power + 1
    if not power:
        return f"{number:.0f}"
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f}{_UNITS[power]}"


def clock(seconds: float) -> str:
    """A time: 0:07, 12:34, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def print_summary(console: "Console", summary: "Summary") -> None:
    """The summary as a table: what was done, how fast, where the time went."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name, value, more in (*_amounts(summary), *_stages(summary, console)):
        table.add_row(plain(name), plain(value), plain(more))
    with console.capture() as shown:
        console.print(table)
    console.file.write("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))


class _AboveBar(io.RawIOBase):
    """Standard output of a terminal whose last line is a bar: what is written stands above it."""

    def __init__(self, bar: "Bar", lock: threading.Lock) -> None:
        self._bar = bar
        self._lock = lock
        self._out = cast("IO[bytes]", getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))

    def write(self, data: "Buffer", /) -> int | None:  # type: ignore[override]
        """Erase the bar, write; it is drawn again with the next progress."""
        with self._lock:
            if self._bar.live.is_started:
                self._bar.console.file.write(_ERASE)
                self._bar.console.file.flush()
            return self._out.write(data)


def _drawing(bar: "Bar", lock: threading.Lock) -> "Callable[[Progress], None]":
    """Draws the progress on a bar, a task for every phase that shows."""
    task = bar.add_task("", total=None, said="")

    def draw(progress: "Progress") -> None:
        total = progress.bytes_total if progress.phase == "read" else None
        name = f"[red]{_trouble(progress)}[/]" if progress.trouble else progress.phase
        with lock:
            bar.start()
            done = min(progress.bytes_read, progress.bytes_total or progress.bytes_read)
            bar.update(
                task, total=total or None, completed=done, description=name, said=said(progress)
            )
            bar.refresh()

    return draw


def _trouble(progress: "Progress") -> str:
    """The name of the alarm."""
    return (progress.trouble or "").partition(":")[0]


def _of(done: int, total: int) -> str:
    """Bytes of all bytes, in one unit."""
    largest, power = max(done, total), 2
    while largest >= 10 * 1000 ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    shown = [f"{one / 1000**power:,.1f}" for one in ((done, total) if total else (done,))]
    return f"{'/'.join(shown)} {_UNITS[power]}B"


def _amounts(summary: "Summary") -> Iterator[tuple[str, str, str]]:
    """Name, value and remark of what was done."""
    speed, engine = summary.speed, summary.engine or "the engine"
    failed = f"{summary.failed_files:,} failed" if summary.failed_files else ""
    yield "files", f"{summary.files:,}", failed
    left = {"rejected": summary.rejected, "filtered": summary.filtered}
    yield "records", f"{summary.records:,}", ", ".join(f"{n:,} {w}" for w, n in left.items() if n)
    yield "documents", f"{summary.documents:,}", ""
    by = f" by {safe(summary.engine)}" if summary.engine else ""
    yield "tokens", f"{summary.tokens:,}", f"{amount(speed.tokens_per_sec)} tokens/s{by}"
    share = _share(speed.engine_share, speed.engine_mbps, f"what {engine} does in memory")
    yield "text", _bytes(summary.text_bytes), f"{speed.text_mbps:,.1f} MB/s{share}"
    share = _share(speed.disk_share, speed.disk_mbps, "the disk's sequential reading")
    yield "input", _bytes(summary.bytes_read), f"{speed.read_mbps:,.1f} MB/s{share}"
    yield "memory", _bytes(summary.peak_rss_bytes), "at most, of all processes"
    known = [f"{n} {ms:,.0f} ms" for n, ms in summary.latency_ms.items() if ms is not None]
    if known:
        yield "batches", "", ", ".join(known)
    if summary.errors:
        yield "errors", "", ", ".join(f"{n:,} {kind}" for kind, n in summary.errors.items())
    phases = ", ".join(f"{name} {_seconds(s)}" for name, s in summary.phases.items())
    yield "time", _seconds(summary.wall_seconds), phases


def _stages(summary: "Summary", console: "Console") -> Iterator[tuple[str, str, str]]:
    """Name, seconds and a small bar of every stage, over all threads."""
    yield "stages", _seconds(sum(one.seconds for one in summary.stages)), "of all threads"
    for one in summary.stages:
        bar = _strip(one, ascii_only=console.options.ascii_only)
        yield f"  {one.stage}", _seconds(one.seconds), f"{100 * one.share:3.0f} %  {bar}"


def _strip(stage: "StageTime", *, ascii_only: bool) -> str:
    """A bar as long as the stage's share."""
    if ascii_only:
        return "#" * round(stage.share * _BAR)
    whole, eighths = divmod(round(stage.share * _BAR * 8), 8)
    return "█" * whole + (_EIGHTHS[eighths - 1] if eighths else "")


def _share(share: float | None, whole: float | None, what: str) -> str:
    """A remark on a share, nothing if it is not known."""
    if share is None:
        return ""
    return f"; while reading {100 * share:.0f} % of {safe(what)} ({whole:,.0f} MB/s)"


def _bytes(number: int) -> str:
    """Bytes with their unit."""
    short = amount(number)
    digits = short.rstrip("".join(_UNITS))
    return f"{digits} {short[len(digits) :]}B"


def _seconds(seconds: float) -> str:
    """A time: with a digit behind the point below a minute."""
    return f"{seconds:.1f} s" if seconds < 59.95 else clock(seconds)
