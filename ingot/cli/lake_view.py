"""What `ingot lake run` shows: how far it is, what became of the data sets, what to do next."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ingot.cli.console import notes, output, plain, print_json
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ingot.agent.lake.order import LakeOrder
    from ingot.agent.lake.run import Report
    from ingot.converters.lake.facts import SetFacts

_ROWS = ("converted", "rejected", "filtered")
_OPEN = ("waiting", "resting", "failed")
_STYLES = {"waiting": "yellow", "resting": "yellow", "failed": "red"}
_MOST_SHOWN = 20


def show_run(order: "LakeOrder", *, strict: bool, as_json: bool) -> None:
    """One run, with its summary.

    Raises:
        typer.Exit: with `strict`, where a data set waits, rests or failed.
    """
    from ingot.agent.lake.run import run

    with _meter() as listener:
        report = run(order, listener)
    _show_report(order, report, as_json=as_json)
    if strict and any(one.status in _OPEN for one in report.sets):
        raise typer.Exit(1)


def watch_lake(order: "LakeOrder", poll: float, *, as_json: bool) -> None:
    """Run after run until interrupted; tells of those that had something to do."""
    from ingot.agent.lake.ledger import end_run
    from ingot.agent.lake.run import run
    from ingot.converters.errors import OutputError, SourceError

    known: tuple[SetFacts, ...] | None = None
    try:
        while True:
            try:
                with _meter(quiet=known is not None) as listener:
                    report = run(order, listener, settle=poll, watching=True)
                if report.sets != known:
                    _show_report(order, report, as_json=as_json)
                known = report.sets
            except (SourceError, OutputError) as error:
                if known is None:
                    raise
                notes().print(plain(f"looked in vain: {error}", "yellow"))  # it may come back
            time.sleep(poll)
    except KeyboardInterrupt:
        notes().print("stopped watching")
        end_run(order.state)  # killed, it goes on within its budget; stopped, it has ended


def show_sets(order: "LakeOrder", *, as_json: bool) -> None:
    """The data sets that there are, before anything is done with them."""
    from ingot.agent.lake.run import find_sets
    from ingot.agent.lake.workers import Workers
    from ingot.cli.show import grid

    with _meter() as listener, Workers(order.jobs) as workers:
        found, files = find_sets(order, workers, listener)
    sets: list[dict[str, Json]] = [
        {
            "name": one.name,
            "place": one.place,
            "format": one.source.files[0].facts.format if one.source.files else None,
            "files": len(one.source.files),
            "bytes": sum(file.bytes or 0 for file in one.source.files),
            "for_another_command": one.said is not None,
            "cannot_be_read": len(one.faults),
        }
        for one in found.sets
    ]
    if as_json:
        print_json({"files": files, "sets": sets, "left_out": len(found.all_left_out())})
        return
    lines = [
        (one["name"], one["format"] or "-", _many(one["files"], "file"), f"{one['bytes']:,} bytes")
        for one in sets
    ]
    grid(output(), lines)
    output().print(
        plain(
            f"{_many(len(sets), 'data set')} in {_many(files, 'file')}, "
            f"{len(found.all_left_out()):,} left out",
            "bold",
        )
    )


def _show_report(order: "LakeOrder", report: "Report", *, as_json: bool) -> None:
    if as_json:
        print_json(_document(order, report))
        return
    console = output()
    statuses = Counter(one.status for one in report.sets)
    told = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    console.print(plain(f"{_many(len(report.sets), 'data set')}: {told}", "bold"))
    console.print(plain(_rows_line(report.sets)))
    if (line := _asked_line(report)) is not None:
        console.print(plain(line))
    if report.left_out:
        out = order.out / "left_out.jsonl"
        console.print(plain(f"{_many(len(report.left_out), 'file')} left out: {out}"))
    for status in _OPEN:
        _show_open([one for one in report.sets if one.status == status])
    console.print(plain(f"look at it: {order.out / 'index.html'}"))
    if statuses["waiting"]:
        console.print(plain(f"to decide what waits: ingot lake review {order.out}"))


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _rows_line(sets: Sequence["SetFacts"]) -> str:
    rows, records = _sums(sets)
    parts = " + ".join(f"{rows[name]:,} {name}" for name in _ROWS)
    written = f"{records['written']:,} records"
    repeats = sum(one.figures.within + one.across for one in sets if one.status == "converted")
    tokens = [one.tokens for one in sets if one.tokens is not None]
    more = f", {sum(tokens):,} tokens" if tokens else ""
    return f"{rows['read']:,} rows = {parts}; {written}, {repeats:,} of them repeats{more}"


def _sums(sets: Sequence["SetFacts"]) -> tuple[Counter[str], Counter[str]]:
    rows: Counter[str] = Counter()
    records: Counter[str] = Counter()
    for one in sets:
        if one.status == "converted":
            rows.update(one.rows)
            records.update(one.records)
    return rows, records


def _asked_line(report: "Report") -> str | None:
    spent = report.spent
    if not spent.calls:
        return None
    money = "price unknown" if spent.cost is None else f"${spent.cost:.4f}"
    return f"asked a model {spent.calls:,} times, {spent.chars_sent:,} characters sent, {money}"


def _show_open(sets: Sequence["SetFacts"]) -> None:
    for one in sets[:_MOST_SHOWN]:
        why = " ".join(one.why.split())
        notes().print(plain(f"{one.status}: {one.name}: {why}", _STYLES[one.status]))
    if len(sets) > _MOST_SHOWN:
        notes().print(plain(f"... and {len(sets) - _MOST_SHOWN:,} more {sets[0].status}"))


def _document(order: "LakeOrder", report: "Report") -> dict[str, Json]:
    """The report for programs: no samples and no mappings, which may be long."""
    from ingot.converters.lake.facts import Figures

    rows, records = _sums(report.sets)
    left_out = ("mapping", "figures")
    short = [replace(one, mapping=None, figures=Figures()).to_json() for one in report.sets]
    return {
        "lake": str(order.out),
        "files": report.files,
        "statuses": dict(Counter(one.status for one in report.sets)),
        "worked": list(report.worked),
        "rows": dict(rows),
        "records": dict(records),
        "spent": report.spent.to_json(),
        "seconds": round(report.seconds, 3),
        "sets": [{key: v for key, v in one.items() if key not in left_out} for one in short],
        "left_out": [{"name": name, "why": why} for name, why in report.left_out],
    }


class _Lines:
    """Says on stderr what happens, a line per data set, where nobody looks at a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def _say(self, text: str, style: str = "") -> None:
        if not self._quiet:
            notes().print(plain(text, style))

    def looking(self, done: int, files: int) -> None:
        """So many of so many new files were looked at."""

    def found(self, sets: int, todo: int) -> None:
        """So many data sets there are, and so many of them are new or have changed."""
        self._say(f"{_many(sets, 'data set')}, {todo:,} of them new or changed")

    def settled(self, facts: "SetFacts", done: int, todo: int) -> None:
        """A data set has come to its end."""
        written = facts.records.get("written")
        records = "" if written is None else f", {written:,} records"
        said = f"[{done:,}/{todo:,}] {facts.name}: {facts.status}{records}"
        self._say(said, _STYLES.get(facts.status, ""))

    def finishing(self, what: str) -> None:
        """What is done at the end."""
        self._say(what)


class _Bars:
    """Shows on a terminal how far a run is."""

    def __init__(self, bar: "Progress") -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def _update(self, name: str, done: int, whole: int, said: str = "") -> None:
        self._bar.start()  # not before there is something to show; again is no harm
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=whole, said="")
        self._bar.update(self._tasks[name], completed=done, total=whole, said=said)

    def looking(self, done: int, files: int) -> None:
        """So many of so many new files were looked at."""
        self._update("files", done, files, f"{done:,} of {files:,}")

    def found(self, sets: int, todo: int) -> None:
        """So many data sets there are, and so many of them are new or have changed."""
        if todo:
            self._update("data sets", 0, todo, f"0 of {todo:,}")

    def settled(self, facts: "SetFacts", done: int, todo: int) -> None:
        """A data set has come to its end."""
        from ingot.cli.console import safe

        name = safe(facts.name).replace("\n", " ")[:40]
        self._update("data sets", done, todo, f"{done:,} of {todo:,} {name}: {facts.status}")

    def finishing(self, what: str) -> None:
        """What is done at the end."""
        self._update(what, 0, 1)


@contextmanager
def _meter(*, quiet: bool = False) -> Iterator[_Lines | _Bars]:
    if quiet or not sys.stderr.isatty():
        yield _Lines(quiet=quiet)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    said = TextColumn("{task.fields[said]}", markup=False)  # names are of unknown origin
    columns = (TextColumn("{task.description}"), BarColumn(), said)
    bar = Progress(*columns, console=notes(), transient=True)
    try:
        yield _Bars(bar)
    finally:
        bar.stop()
