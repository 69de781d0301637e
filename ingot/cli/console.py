"""What the commands print with: output to stdout; progress, questions and errors to stderr.

Text from data and files is of unknown origin: control characters never reach a terminal.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from rich.text import Text

    from ingot.converters.progress import Progress, Watch

_PIPE_WIDTH = 160


def safe_text(text: str) -> str:
    """The text without control characters but line breaks and tabs (tabs as blanks)."""
    kept = (c if c.isprintable() or c == "\n" else " " for c in text)
    return "".join(kept)


def plain_text(text: str, style: str = "") -> "Text":
    """Text for rich that is no markup, whatever it holds."""
    from rich.text import Text

    return Text(safe_text(text), style=style)


def stdout_console() -> "Console":
    """The console for results; wide where it is no terminal, so that paths stay whole."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def stderr_console() -> "Console":
    """The console for everything that is not the result."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else _PIPE_WIDTH
    return Console(stderr=True, width=width, highlight=False)


def print_json(document: Json) -> None:
    """A document on stdout, for programs."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def print_error(text: str, ways: Iterable[str] = ()) -> None:
    """One error on stderr, without the credentials of URLs.

    Needs the standard library alone, as it may be all that works.
    """
    from ingot.converters.sources.storage.read_errors import redact_urls

    lines = [f"error: {text}", *(f"  {way}" for way in ways)]
    sys.stderr.write("".join(f"{safe_text(redact_urls(line))}\n" for line in lines))


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def progress_meter() -> Iterator["Watch"]:
    """Shows how far a conversion is, on stderr and only if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    bar = Bar(*columns, console=stderr_console(), transient=True)
    tasks: dict[str, TaskID] = {}

    def watch(progress: "Progress") -> None:
        bar.start()  # not before there is something to show; again is no harm
        said = f"{progress.rows:,} rows, {progress.records:,} records"
        if progress.stage not in tasks:
            tasks[progress.stage] = bar.add_task(progress.stage, total=progress.shards, said=said)
        bar.update(tasks[progress.stage], completed=progress.shards_done, said=said)

    try:
        yield watch
    finally:
        bar.stop()
