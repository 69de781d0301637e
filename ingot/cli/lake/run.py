"""`ingot lake run`: its options, what it shows while it works, and its summary."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ingot.agent.lake.lake_order import MAPPINGS, LakeOrder
from ingot.agent.model.settings import ModelSettings
from ingot.cli import options as o
from ingot.cli.console import (
    note_line,
    plain_text,
    print_json,
    print_line,
    safe_text,
    stderr_console,
    stdout_console,
)
from ingot.cli.display import count_text, print_grid
from ingot.cli.model_options import ask_settings
from ingot.cli.options import Only, command_options
from ingot.converters.rows import Json
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ingot.agent.lake.run import LakeReport
    from ingot.converters.lake.catalog import SetFacts

_ROWS = ("converted", "rejected", "filtered")
_OPEN = ("waiting", "resting", "failed")
_STYLES = {"waiting": "yellow", "resting": "yellow", "failed": "red"}
_MOST_SHOWN = 20


def show_run(order: LakeOrder, *, strict: bool, as_json: bool) -> None:
    """Run once and print the summary."""
    from ingot.agent.lake.run import run_lake

    with _choose_listener() as listener:
        report = run_lake(order, listener)
    _show_report(order, report, as_json=as_json)
    if strict and any(one.status in _OPEN for one in report.sets):
        raise typer.Exit(1)


def watch_lake(order: LakeOrder, poll: float, *, as_json: bool) -> None:
    """Run again and again until interrupted; print runs that changed something."""
    from ingot.agent.lake.run import run_lake
    from ingot.agent.lake.shared_model import end_run
    from ingot.converters.errors import OutputError, SourceError

    known: tuple[SetFacts, ...] | None = None
    try:
        while True:
            try:
                with _choose_listener(quiet=known is not None) as listener:
                    report = run_lake(order, listener, settle=poll, watching=True)
                if report.sets != known:
                    _show_report(order, report, as_json=as_json)
                known = report.sets
            except (SourceError, OutputError) as error:
                if known is None:
                    raise
                note_line(f"could not read the lake: {error}", "yellow")  # it may come back
            time.sleep(poll)
    except KeyboardInterrupt:
        stderr_console().print("stopped watching")
        end_run(order.state)  # a killed run resumes within its budget; a stopped one has ended


def show_sets(order: LakeOrder, *, as_json: bool) -> None:
    """List the data sets before anything is done with them."""
    from ingot.agent.lake.run import find_sets
    from ingot.converters.output.worker_pool import Workers

    with _choose_listener() as listener, Workers(order.jobs) as workers:
        found, files = find_sets(order, workers, listener.show_scan)
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
        (
            one["name"],
            one["format"] or "-",
            count_text(one["files"], "file"),
            f"{one['bytes']:,} bytes",
        )
        for one in sets
    ]
    print_grid(stdout_console(), lines)
    counts = f"{count_text(len(sets), 'data set')} in {count_text(files, 'file')}"
    print_line(f"{counts}, {len(found.all_left_out()):,} left out", "bold")


def _show_report(order: LakeOrder, report: "LakeReport", *, as_json: bool) -> None:
    if as_json:
        print_json(_report_document(order, report))
        return
    console = stdout_console()
    statuses = Counter(one.status for one in report.sets)
    counts = ", ".join(f"{n:,} {_status_words(status)}" for status, n in statuses.most_common())
    console.print(plain_text(f"{count_text(len(report.sets), 'data set')}: {counts}", "bold"))
    console.print(plain_text(_rows_line(report.sets)))
    if (line := _model_line(report)) is not None:
        console.print(plain_text(line))
    if report.left_out:
        out = order.out / "left_out.jsonl"
        console.print(plain_text(f"{count_text(len(report.left_out), 'file')} left out: {out}"))
    for status in _OPEN:
        _show_open_sets([one for one in report.sets if one.status == status])
    console.print(plain_text(f"overview: {order.out / 'index.html'}"))
    if statuses["waiting"]:
        console.print(plain_text(f"to review what waits: ingot lake review {order.out}"))


def _status_words(status: str) -> str:
    from ingot.converters.lake.catalog import STATUS_WORDS

    return STATUS_WORDS[status]


def _rows_line(sets: Sequence["SetFacts"]) -> str:
    rows, records = _sum_counts(sets)
    parts = " + ".join(f"{rows[name]:,} {name}" for name in _ROWS)
    written = f"{records['written']:,} records"
    repeats = sum(one.figures.within + one.across for one in sets if one.status == "converted")
    tokens = [one.tokens for one in sets if one.tokens is not None]
    more = f", {sum(tokens):,} tokens" if tokens else ""
    return f"{rows['read']:,} rows = {parts}; {written}, {repeats:,} of them duplicates{more}"


def _sum_counts(sets: Sequence["SetFacts"]) -> tuple[Counter[str], Counter[str]]:
    rows: Counter[str] = Counter()
    records: Counter[str] = Counter()
    for one in sets:
        if one.status == "converted":
            rows.update(one.rows)
            records.update(one.records)
    return rows, records


def _model_line(report: "LakeReport") -> str | None:
    spent = report.spent
    if not spent.calls:
        return None
    money = "price unknown" if spent.cost is None else f"${spent.cost:.4f}"
    return f"asked a model {spent.calls:,} times, {spent.chars_sent:,} characters sent, {money}"


def _show_open_sets(sets: Sequence["SetFacts"]) -> None:
    for one in sets[:_MOST_SHOWN]:
        why = " ".join(one.why.split())
        note_line(f"{_status_words(one.status)}: {one.name}: {why}", _STYLES[one.status])
    if len(sets) > _MOST_SHOWN:
        note_line(f"... and {len(sets) - _MOST_SHOWN:,} more {_status_words(sets[0].status)}")


def _report_document(order: LakeOrder, report: "LakeReport") -> dict[str, Json]:
    """Return the report as JSON, without samples and mappings, which may be long."""
    from ingot.converters.lake.catalog import Figures

    rows, records = _sum_counts(report.sets)
    left_out = ("mapping", "figures")
    short = [replace(one, mapping=None, figures=Figures()).to_json() for one in report.sets]
    return {
        "lake": str(order.out),
        "files": report.files,
        "statuses": dict(Counter(one.status for one in report.sets)),
        "worked": list(report.worked),
        "rows": dict(rows),
        "records": dict(records),
        "spent": asdict(report.spent),
        "seconds": round(report.seconds, 3),
        "sets": [{key: v for key, v in one.items() if key not in left_out} for one in short],
        "left_out": [{"name": name, "why": why} for name, why in report.left_out],
    }


class _LineListener:
    """Prints a line per data set on stderr, for logs."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def _say(self, text: str, style: str = "") -> None:
        if not self._quiet:
            note_line(text, style)

    def show_scan(self, done: int, files: int) -> None:
        """So many of so many new files were looked at."""

    def show_sets(self, sets: int, todo: int) -> None:
        self._say(f"{count_text(sets, 'data set')}, {todo:,} of them new or changed")

    def show_done(self, facts: "SetFacts", done: int, todo: int) -> None:
        written = facts.records.get("written")
        records = "" if written is None else f", {written:,} records"
        line = f"[{done:,}/{todo:,}] {facts.name}: {_status_words(facts.status)}{records}"
        self._say(line, _STYLES.get(facts.status, ""))

    def show_step(self, what: str) -> None:
        self._say(what)


class _BarListener:
    """Shows progress bars on a terminal."""

    def __init__(self, bar: "Progress") -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def _update(self, name: str, done: int, whole: int, text: str = "") -> None:
        self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=whole, text="")
        self._bar.update(self._tasks[name], completed=done, total=whole, text=text)

    def show_scan(self, done: int, files: int) -> None:
        self._update("files", done, files, f"{done:,} of {files:,}")

    def show_sets(self, sets: int, todo: int) -> None:
        if todo:
            self._update("data sets", 0, todo, f"0 of {todo:,}")

    def show_done(self, facts: "SetFacts", done: int, todo: int) -> None:
        name = safe_text(facts.name).replace("\n", " ")[:40]
        text = f"{done:,} of {todo:,} {name}: {_status_words(facts.status)}"
        self._update("data sets", done, todo, text)

    def show_step(self, what: str) -> None:
        self._update(what, 0, 1)


@contextmanager
def _choose_listener(*, quiet: bool = False) -> Iterator[_LineListener | _BarListener]:
    if quiet or not sys.stderr.isatty():
        yield _LineListener(quiet=quiet)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    text = TextColumn("{task.fields[text]}", markup=False)  # names are not trusted
    columns = (TextColumn("{task.description}"), BarColumn(), text)
    bar = Progress(*columns, console=stderr_console(), transient=True)
    try:
        yield _BarListener(bar)
    finally:
        bar.stop()


_WAITING = 4  # processes that may wait for a model while others work


@command_options
def run(
    *,
    order: Annotated[LakeOrder, Only(mappings=Path(MAPPINGS))],
    mappings: Annotated[
        Path | None,
        Setting(
            "Folder of approved mappings, such as one in a git repository.",
            metavar="FOLDER",
            default="DIR/mappings",
        ),
    ] = None,
    dedup: Annotated[
        Literal["exact"] | None,
        Setting(
            "Keep only the first of identical records in DIR/corpus, over all data sets.",
            section="Corpus for training",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        Setting(
            "Number of data sets processed at the same time, each in its own process.",
            metavar="N",
            minimum=1,
            default="cores, and 4 more with a model",
        ),
    ] = None,
    llm: ModelSettings,
    watch: Annotated[
        bool, Setting("Repeat the run for new and changed data sets, until interrupted.")
    ] = False,
    poll: Annotated[
        float,
        Setting(
            "With `watch`: seconds between two runs; newer files wait for the next run.",
            metavar="S",
            minimum=0.1,
        ),
    ] = 30.0,
    dry_run: Annotated[
        bool, Setting("List the data sets and convert nothing; only the file scan is stored.")
    ] = False,
    strict: Annotated[
        bool, Setting("Exit with 1 if a data set waits, failed or has no budget left.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Convert the new and changed data sets of a lake.

    Finds the data sets, maps and checks each of them, and converts those that pass. Writes sets/,
    mappings/, catalog.parquet and index.html into DIR, and corpus/ with --dedup or --split. Data
    sets that need a person wait until you run ingot lake review DIR.
    """
    asked = ask_settings(llm, order.mapper)
    if order.pin and order.share_values == "none":
        raise typer.BadParameter("--pin-sample stores values, --share-values none forbids it")
    order = replace(
        order,
        out=order.out.absolute(),
        mappings=(mappings or order.out / MAPPINGS).absolute(),
        asking=asked,
        dedup=dedup is not None,
        jobs=jobs or (os.cpu_count() or 1) + (_WAITING if asked else 0),
    )
    if dry_run:
        show_sets(order, as_json=as_json)
    elif watch:
        watch_lake(order, poll, as_json=as_json)
    else:
        show_run(order, strict=strict, as_json=as_json)
