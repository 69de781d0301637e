"""`ingot monolith cat`: rows as people read them, or as JSON."""

import json
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingot.cli import monolith_options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.monolith.looking.opening import Said
    from ingot.converters.monolith.records import Bad
    from ingot.converters.rows import Json

_CONTROL: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def cat(
    where: o.WhereArgument,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=0, help="The first N rows.", show_default="all"),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="NAME",
            help="Show this feature alone; may be given several times.",
            show_default=False,
        ),
    ] = None,
    kind: o.FromOption = None,
    framing: o.FramingOption = None,
    compression: o.CompressionOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line, with nothing cut.")
    ] = False,
) -> None:
    """Show rows: LineId, labels, and features with their values; fids as slot:signature.

    What cannot be read is told on stderr and passed over; the exit code is 1 then.
    """
    from ingot.cli.console import notes, output

    said, console = o.said(kind, framing, compression), None if as_json else output()
    seen = _Seen(notes())
    with _quiet_pipe():
        for document in islice(seen.documents(where, said, feature or None), limit):
            _write(console, document)
        sys.stdout.flush()
    if seen.bad:
        raise typer.Exit(1)


class _Seen:
    """Documents of rows; what is none is told at once and counted."""

    def __init__(self, notes: "Console") -> None:
        self._notes = notes
        self.rows = self.bad = 0

    def documents(
        self, where: str, said: "Said", wanted: Collection[str] | None
    ) -> "Iterator[dict[str, Json]]":
        from ingot.converters.monolith.looking.documents import documents
        from ingot.converters.monolith.looking.opening import opened
        from ingot.converters.monolith.records import Bad

        for stream in opened(where, said):
            if stream.guessed:
                self._tell(f"{stream.where}: read as {stream.told}")
            for part in stream.parts:
                if isinstance(part, Bad):
                    self._complain(stream.where, part)
                    continue
                yield from documents(part, self.rows, wanted)
                self.rows += len(part)

    def _complain(self, where: str, bad: "Bad") -> None:
        from ingot.converters.monolith.looking.telling import complaint

        self.bad += 1
        self._tell(f"{where}: {complaint(bad)}", "yellow")

    def _tell(self, text: str, style: str = "") -> None:
        from ingot.agent.redaction.urls import without_credentials
        from ingot.cli.console import plain

        self._notes.print(plain(without_credentials(text), style), soft_wrap=True)


def _write(console: "Console | None", document: "dict[str, Json]") -> None:
    if console is None:
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        sys.stdout.write(line.translate(_CONTROL) + "\n")
    else:
        _show(console, document)


def _show(console: "Console", document: "dict[str, Json]") -> None:
    from ingot.cli.console import plain
    from ingot.cli.show import grid
    from ingot.converters.monolith.looking.lines import cells, head

    console.print(plain(head(document), "bold"))
    grid(console, list(cells(document)))


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """A reader that has seen enough, such as head, is no error."""
    try:
        yield
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - what is flushed at the exit
