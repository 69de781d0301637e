"""What `ingot lake run` shows: how far it is, what became of the data sets, what to do next.

`ingot lake run`: every data set below a folder or URL, mapped, gated, converted, catalogued.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.console import plain_text, print_json, stderr_console, stdout_console
from ingot.cli.model_options import ModelOptions
from ingot.cli.options import expand_options
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ingot.agent.lake.lake_order import LakeOrder
    from ingot.agent.lake.run import LakeReport
    from ingot.converters.lake.catalog import SetFacts
    from ingot.converters.lake.record_hashes import Splits

_ROWS = ("converted", "rejected", "filtered")
_OPEN = ("waiting", "resting", "failed")
_STYLES = {"waiting": "yellow", "resting": "yellow", "failed": "red"}
_MOST_SHOWN = 20


def show_run(order: "LakeOrder", *, strict: bool, as_json: bool) -> None:
    """One run, with its summary."""
    from ingot.agent.lake.run import run_lake

    with _choose_listener() as listener:
        report = run_lake(order, listener)
    _show_report(order, report, as_json=as_json)
    if strict and any(one.status in _OPEN for one in report.sets):
        raise typer.Exit(1)


def watch_lake(order: "LakeOrder", poll: float, *, as_json: bool) -> None:
    """Run after run until interrupted; tells of those that had something to do."""
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
                stderr_console().print(
                    plain_text(f"looked in vain: {error}", "yellow")
                )  # it may come back
            time.sleep(poll)
    except KeyboardInterrupt:
        stderr_console().print("stopped watching")
        end_run(order.state)  # killed, it goes on within its budget; stopped, it has ended


def show_sets(order: "LakeOrder", *, as_json: bool) -> None:
    """The data sets that there are, before anything is done with them."""
    from ingot.agent.lake.run import find_sets
    from ingot.agent.lake.scheduling import Workers
    from ingot.cli.display import print_grid

    with _choose_listener() as listener, Workers(order.jobs) as workers:
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
        (
            one["name"],
            one["format"] or "-",
            _count_text(one["files"], "file"),
            f"{one['bytes']:,} bytes",
        )
        for one in sets
    ]
    print_grid(stdout_console(), lines)
    stdout_console().print(
        plain_text(
            f"{_count_text(len(sets), 'data set')} in {_count_text(files, 'file')}, "
            f"{len(found.all_left_out()):,} left out",
            "bold",
        )
    )


def _show_report(order: "LakeOrder", report: "LakeReport", *, as_json: bool) -> None:
    if as_json:
        print_json(_report_document(order, report))
        return
    console = stdout_console()
    statuses = Counter(one.status for one in report.sets)
    told = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    console.print(plain_text(f"{_count_text(len(report.sets), 'data set')}: {told}", "bold"))
    console.print(plain_text(_rows_line(report.sets)))
    if (line := _model_line(report)) is not None:
        console.print(plain_text(line))
    if report.left_out:
        out = order.out / "left_out.jsonl"
        console.print(plain_text(f"{_count_text(len(report.left_out), 'file')} left out: {out}"))
    for status in _OPEN:
        _show_open_sets([one for one in report.sets if one.status == status])
    console.print(plain_text(f"look at it: {order.out / 'index.html'}"))
    if statuses["waiting"]:
        console.print(plain_text(f"to decide what waits: ingot lake review {order.out}"))


def _count_text(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _rows_line(sets: Sequence["SetFacts"]) -> str:
    rows, records = _sum_counts(sets)
    parts = " + ".join(f"{rows[name]:,} {name}" for name in _ROWS)
    written = f"{records['written']:,} records"
    repeats = sum(one.figures.within + one.across for one in sets if one.status == "converted")
    tokens = [one.tokens for one in sets if one.tokens is not None]
    more = f", {sum(tokens):,} tokens" if tokens else ""
    return f"{rows['read']:,} rows = {parts}; {written}, {repeats:,} of them repeats{more}"


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
        stderr_console().print(plain_text(f"{one.status}: {one.name}: {why}", _STYLES[one.status]))
    if len(sets) > _MOST_SHOWN:
        stderr_console().print(
            plain_text(f"... and {len(sets) - _MOST_SHOWN:,} more {sets[0].status}")
        )


def _report_document(order: "LakeOrder", report: "LakeReport") -> dict[str, Json]:
    """The report for programs: no samples and no mappings, which may be long."""
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
    """Says on stderr what happens, a line per data set, where nobody looks at a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def _say(self, text: str, style: str = "") -> None:
        if not self._quiet:
            stderr_console().print(plain_text(text, style))

    def looking(self, done: int, files: int) -> None:
        """So many of so many new files were looked at."""

    def found(self, sets: int, todo: int) -> None:
        """So many data sets there are, and so many of them are new or have changed."""
        self._say(f"{_count_text(sets, 'data set')}, {todo:,} of them new or changed")

    def settled(self, facts: "SetFacts", done: int, todo: int) -> None:
        """A data set has come to its end."""
        written = facts.records.get("written")
        records = "" if written is None else f", {written:,} records"
        said = f"[{done:,}/{todo:,}] {facts.name}: {facts.status}{records}"
        self._say(said, _STYLES.get(facts.status, ""))

    def finishing(self, what: str) -> None:
        """What is done at the end."""
        self._say(what)


class _BarListener:
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
        from ingot.cli.console import safe_text

        name = safe_text(facts.name).replace("\n", " ")[:40]
        self._update("data sets", done, todo, f"{done:,} of {todo:,} {name}: {facts.status}")

    def finishing(self, what: str) -> None:
        """What is done at the end."""
        self._update(what, 0, 1)


@contextmanager
def _choose_listener(*, quiet: bool = False) -> Iterator[_LineListener | _BarListener]:
    if quiet or not sys.stderr.isatty():
        yield _LineListener(quiet=quiet)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    said = TextColumn("{task.fields[said]}", markup=False)  # names are of unknown origin
    columns = (TextColumn("{task.description}"), BarColumn(), said)
    bar = Progress(*columns, console=stderr_console(), transient=True)
    try:
        yield _BarListener(bar)
    finally:
        bar.stop()


_POLL = 30.0
_WAITING = 4  # processes that may wait for a model while others work
_CORPUS = "What training reads"


class Dedup(StrEnum):
    """Which repeats are left out."""

    exact = "exact"


def _parse_splits(text: str | None) -> "Splits | None":
    """The splits that were asked for."""
    from ingot.converters.errors import ConversionError
    from ingot.converters.lake import record_hashes

    try:
        return None if text is None else record_hashes.parse_splits(text)
    except ConversionError as error:
        raise typer.BadParameter(str(error)) from error


@expand_options
def run(
    *,
    root: Annotated[
        str,
        typer.Argument(
            metavar="ROOT",
            help="Folder or URL (s3://, gs://, hdfs://, ...) below which the data sets lie.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder of the lake.", show_default=False),
    ],
    mode: o.ModeOption = o.Mode.auto,
    mapper: o.MapperOption = o.Mapper.auto,
    mappings: Annotated[
        Path | None,
        typer.Option(
            "--mappings",
            metavar="FOLDER",
            help="Where approved mappings lie, such as a folder of a git repository.  "
            "[default: DIR/mappings]",
            show_default=False,
        ),
    ] = None,
    pin_sample: Annotated[
        bool,
        typer.Option(
            "--pin-sample",
            help="Lay a small sample of raw rows beside each mapping: ingot review replays it.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Approve proposals that pass the gates; others wait.")
    ] = False,
    min_confidence: Annotated[
        float,
        typer.Option(
            "--min-confidence",
            metavar="X",
            min=0.0,
            max=1.0,
            help="From 0 to 1: where the mapper is less sure, the data set waits, --yes or not.",
            show_default=False,
        ),
    ] = 0.0,
    allow_drift: o.AllowDriftOption = False,
    tokenizer: o.TokenizerOption = None,
    records: o.RecordsOption = o.Records.parquet,
    language: o.LanguageOption = None,
    dedup: Annotated[
        Dedup | None,
        typer.Option(
            "--dedup",
            help="Leave records out of DIR/corpus that repeat another one of the lake.",
            rich_help_panel=_CORPUS,
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="PARTS",
            help="Deal records to splits in DIR/corpus by what they say: train=0.98,valid=0.02.",
            rich_help_panel=_CORPUS,
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            help="Data sets at a time, each in a process.  [default: cores, and 4 more with a "
            "model]",
            show_default=False,
        ),
    ] = None,
    llm: ModelOptions,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Look again and again for what is new, until interrupted."),
    ] = False,
    poll: Annotated[
        float,
        typer.Option(
            "--poll",
            metavar="S",
            min=0.1,
            help="With --watch: seconds between two looks; files younger than that wait.",
        ),
    ] = _POLL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the data sets, write nothing but what was seen.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 if a data set waits, rests or failed."),
    ] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Find the data sets of a lake; map, gate and convert what is new or changed.

    Writes sets/, mappings/, catalog.parquet and index.html into DIR, and corpus/ with --dedup or
    --split. What needs a person waits: ingot lake review DIR.
    """
    from ingot.agent.lake.lake_order import MAPPINGS, LakeOrder

    pass

    asked = llm.ask_order(mapper)
    if pin_sample and llm.share_values.value == "none":
        raise typer.BadParameter("--pin-sample stores values, --share-values none forbids it")
    order = LakeOrder(
        root=root,
        out=out.absolute(),
        mappings=(mappings or out / MAPPINGS).absolute(),
        mode=mode.value,
        mapper=mapper.value,
        asking=asked,
        tokenizer=tokenizer,
        records=records.value,
        language=language,
        yes=yes,
        min_confidence=min_confidence,
        allow_drift=allow_drift,
        share_values=llm.share_values.value,
        prompt_tokens=llm.prompt_tokens,
        dedup=dedup is not None,
        pin=pin_sample,
        splits=_parse_splits(split),
        jobs=jobs or (os.cpu_count() or 1) + (_WAITING if asked else 0),
    )
    if dry_run:
        show_sets(order, as_json=as_json)
    elif watch:
        watch_lake(order, poll, as_json=as_json)
    else:
        show_run(order, strict=strict, as_json=as_json)
