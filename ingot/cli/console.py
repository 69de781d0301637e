"""How commands print: output to stdout; progress, questions and errors to stderr.

Text from data and files is not trusted: control characters never reach a terminal.
"""

import io
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal, TextIO, cast

from ingot.converters.rows import Json
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.text import Text

    from ingot.cli.job_watch import JobWatch
    from ingot.converters.errors import IngotError
    from ingot.converters.progress import Progress, Watch

_PIPE_WIDTH = 160
_shown = partial(Setting, section="Logging and metrics")
_NAME = re.compile(r"`([a-z]\w*)`")
_flags: dict[str, str] = {}
_log_streams: list[IO[bytes]] = []  # stderr, where the command that runs logs JSON there
_jobs: list["JobWatch"] = []  # the one that runs
_bars: list["Bar"] = []  # the one that is shown
_drawing = threading.Lock()


def safe_text(text: str) -> str:
    """Return the text without control characters except line breaks; tabs become blanks."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def plain_text(text: str, style: str = "") -> "Text":
    """Return a text for rich that is never read as markup."""
    from rich.text import Text

    return Text(safe_text(text), style=style)


def stdout_console() -> "Console":
    """Return the console for results; wide outside of a terminal, so that paths stay whole."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def stderr_console() -> "Console":
    """Return the console for everything that is not the result."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else _PIPE_WIDTH
    return Console(stderr=True, width=width, highlight=False)


def marked_names(text: str) -> list[str]:
    """Return the names in backticks, which mark settings in the texts of errors."""
    return _NAME.findall(text)


def replace_names(text: str, flags: Mapping[str, str] = _flags) -> str:
    """Return the text with the names of settings in backticks replaced by their flags."""
    return _NAME.sub(lambda match: flags.get(match[1], match[0]), text)


def use_flags(flags: Mapping[str, str], *, json_errors: bool = False) -> None:
    """Set the flags of the command that runs, by the names of its settings; how it says errors."""
    _flags.clear()
    _flags.update(flags)
    _log_streams[:] = [sys.stderr.buffer] if json_errors else []


def note_line(text: str, style: str = "") -> None:
    """Print a message on stderr."""
    stderr_console().print(plain_text(replace_names(text), style))


def print_line(text: str, style: str = "") -> None:
    """Print a text on stdout; a long line is not wrapped."""
    stdout_console().print(plain_text(text, style), soft_wrap=True)


def print_json(document: Json) -> None:
    """Print a document on stdout, for programs."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def print_error(text: str, ways: Iterable[str] = ()) -> None:
    """Print one error on stderr, without the credentials of URLs.

    It needs only the standard library, as nothing else may work.
    """
    from ingot.converters.errors import redact_urls

    lines = [f"error: {text}", *(f"  {remedy}" for remedy in ways)]
    safe_lines = [safe_text(redact_urls(replace_names(line))) for line in lines]
    for stream in _log_streams:
        from ingot.converters.output.monitoring import LogStream

        head = {"level": "error", "component": "ingot", "event": "error"}
        LogStream(stream, "error").write({**head, "error": "\n".join(safe_lines)})
    if not _log_streams:
        sys.stderr.write("".join(f"{line}\n" for line in safe_lines))


def error_parts(error: "IngotError") -> tuple[str, list[str]]:
    """Return the error, and below it what can be done where that takes several lines.

    Quoted data is redacted; of the place stays what the user typed.
    """
    from ingot.agent.privacy import redact

    hint_lines = getattr(error, "hint", "").split("\n")
    is_long = len(hint_lines) > 1
    text = getattr(error, "summary", "") if is_long else str(error)
    location = getattr(error, "where", "")  # of a URL `print_error` hides what is secret
    words = [location] if "://" in location else sys.argv[1:]
    start = max((len(word) for word in words if location.startswith(word)), default=0)
    return text[:start] + redact(text[start:]), [*map(redact, hint_lines)] if is_long else []


def is_interactive() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


MoveBar = Callable[[str, float, float | None, str], None]
"""Called with a stage, how much of it is done, of how much if that is known, and a text."""


@contextmanager
def open_bar(*, shown: bool = True) -> Iterator[MoveBar | None]:
    """Yield what moves the bar of a job; None if stderr is not a terminal or it is not `shown`."""
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    text = TextColumn("{task.fields[text]}", markup=False)  # names are not trusted
    columns = (TextColumn("{task.description}"), BarColumn(None), text)
    bar = Progress(*columns, console=stderr_console(), transient=True, expand=True)
    task = bar.add_task("", total=None, text="")

    def move(stage: str, done: float, total: float | None, text: str) -> None:
        with _drawing:
            bar.start()  # not before there is something to show
            bar.update(task, description=stage, completed=done, total=total, text=text)

    _bars.append(bar)
    try:
        yield move
    finally:
        _bars.remove(bar)
        bar.stop()


class OutputAboveBar(io.RawIOBase):
    """An output that may be the terminal of a bar: text is written above it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = getattr(stream, "raw", stream)

    def write(self, data: bytes | bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Erase the bar and write; the next progress draws it again."""
        with _drawing:
            for bar in _bars:
                bar.stop()
            written: int | None = self._stream.write(data)
            return written


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How a long job is watched."""

    metrics_port: Annotated[
        int | None,
        _shown(
            "Port of HTTP /metrics, /healthz and /readyz; 0 = any free one.",
            metavar="INT",
            minimum=0,
            maximum=65_535,
        ),
    ] = None
    log_format: Annotated[
        Literal["text", "json"],
        _shown("Progress on stderr for people (text), or as lines of JSON."),
    ] = "text"
    log_file: Annotated[
        Path | None, _shown("File for lines of JSON, instead of stderr.", metavar="PATH")
    ] = None

    @contextmanager
    def open(self, name: str) -> Iterator[None]:
        """Show a job by log lines and metrics where they are asked for; SIGTERM drains it."""
        from ingot.converters.progress import drain_on_sigterm

        with ExitStack() as stack:
            stack.enter_context(drain_on_sigterm())
            is_logged = self.log_format == "json" or self.log_file is not None
            if is_logged or self.metrics_port is not None:
                from ingot.agent.privacy import redact
                from ingot.cli.job_watch import JobWatch, Watching
                from ingot.converters.output.monitoring import LogStream

                stream = stack.enter_context(open_log(self.log_file, sys.stderr))
                log = LogStream(stream, "info") if is_logged else None
                watching = Watching(log=log, port=self.metrics_port, redact=redact)
                job = stack.enter_context(JobWatch(name, watching))
                _jobs.append(job)
                stack.callback(_jobs.remove, job)
            yield


def tell_job(progress: "Progress") -> None:
    """Tell the watch of the job that runs, if there is one."""
    for job in _jobs:
        job(progress)


def open_log(path: Path | None, usual: TextIO | None) -> AbstractContextManager[IO[bytes] | None]:
    """Open a file to append lines to, and make its folder; or the usual output, above a bar."""
    from ingot.converters.output.files import output_errors

    if path is None:
        stream = getattr(usual, "buffer", None)  # a closed one is None
        return nullcontext(stream and cast("IO[bytes]", OutputAboveBar(stream)))
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab", buffering=0)


@contextmanager
def progress_meter() -> Iterator["Watch"]:
    """Show the progress of a conversion to the job's watch, and on stderr if it is a terminal."""

    def watch(progress: "Progress") -> None:
        amounts = f"{progress.rows:,} rows, {progress.records:,} records"
        if move:
            move(progress.stage, progress.shards_done, progress.shards, amounts)
        tell_job(progress)

    with open_bar() as move:
        yield watch
