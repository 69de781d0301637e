"""`ingot lake run`: its options, what it shows while it works, and its summary."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ingot.agent.lake.lake_order import MAPPINGS, LakeOrder
from ingot.agent.model.endpoint import ModelSettings
from ingot.cli import command as o
from ingot.cli.command import Only, SettingError, command_options, show_parts
from ingot.cli.console import (
    JobOptions,
    note_line,
    open_bar,
    plain_text,
    print_json,
    print_line,
    safe_text,
    stderr_console,
    stdout_console,
    tell_job,
)
from ingot.cli.display import print_grid
from ingot.cli.model_options import ask_settings
from ingot.converters.errors import ExitCode, count_text
from ingot.converters.output.sharding import Shard
from ingot.converters.progress import usable_cores
from ingot.converters.rows import Json
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.lake.run import LakeProgress, LakeReport
    from ingot.converters.lake.catalog import SetFacts

_ROWS = ("converted", "rejected", "filtered")
_OPEN = ("waiting", "postponed", "failed")
_STYLES = {"waiting": "yellow", "postponed": "yellow", "failed": "red"}
_MOST_SHOWN = 20


def _run_once(
    order: LakeOrder, *, quiet: bool = False, settle: float = 0.0, watching: bool = False
) -> "LakeReport":
    from ingot.agent.lake.run import run_lake

    with _show_progress(quiet=quiet) as listen:
        return run_lake(order, listen, settle=settle, watching=watching)


def watch_lake(order: LakeOrder, poll: float, *, quiet: bool, as_json: bool) -> None:
    """Run again and again until interrupted; print runs that changed something."""
    from ingot.agent.lake.shared_model import end_run
    from ingot.converters.errors import OutputError, SourceError
    from ingot.converters.progress import (
        WAITING,
        ProgressTally,
        TerminatedError,
        raise_if_stopping,
    )

    known: tuple[SetFacts, ...] | None = None
    try:
        while True:
            try:
                quiet = quiet or known is not None
                report = _run_once(order, quiet=quiet, settle=poll, watching=True)
                if report.sets != known:
                    _show_report(order, report, as_json=as_json)
                known = report.sets
            except (SourceError, OutputError) as error:
                if known is None:
                    raise
                note_line(f"could not read the lake: {error}", "yellow")  # it may come back
            ProgressTally(tell_job).begin(WAITING, 0)
            raise_if_stopping(poll)
    except TerminatedError:  # the same command goes on, within its budget
        raise
    except KeyboardInterrupt:
        stderr_console().print("stopped watching")
        end_run(order.state)  # a killed run resumes within its budget; a stopped one has ended


def show_sets(order: LakeOrder, *, as_json: bool) -> None:
    """List the data sets before anything is done with them."""
    from ingot.agent.judging.source_gates import redacted_left_out
    from ingot.agent.lake.file_scan import find_sets, list_files
    from ingot.agent.lake.run import LakeProgress
    from ingot.converters.lake.survey import group_by_reason

    listed = list_files(order)
    with _show_progress() as listen, order.open_workers() as workers:
        survey = find_sets(
            order, listed, workers, lambda *counts: listen(LakeProgress("files", *counts))
        )
    left_out = [redacted_left_out(one) for one in survey.all_left_out()]
    files = len(listed.entries)
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
        for one in survey.sets
    ]
    if as_json:
        reasons = [{"name": one.name, "why": one.why} for one in left_out]
        document = {"files": files, "sets": sets, "left_out": len(left_out)}
        print_json({**document, "left_out_files": reasons})
        return
    lines = [
        (s["name"], s["format"] or "-", count_text(s["files"], "file"), f"{s['bytes']:,} bytes")
        for s in sets
    ]
    print_grid(stdout_console(), lines)
    counts = f"{count_text(len(sets), 'data set')} in {count_text(files, 'file')}"
    print_line(f"{counts}, {len(left_out):,} left out", "bold")
    for why, number, names in group_by_reason(left_out):
        suffix = f" and {number - len(names):,} more" if number > len(names) else ""
        print_line(f"{number:,} left out, {why}: {', '.join(names)}{suffix}")
    if left_out:
        print_line("--json lists all files that are left out")


def _show_report(order: LakeOrder, report: "LakeReport", *, as_json: bool) -> None:
    sets, spent, statuses = report.sets, report.spent, Counter(one.status for one in report.sets)
    rows, records = Counter[str](), Counter[str]()
    converted = [one for one in sets if one.status == "converted"]
    for one in converted:
        rows.update(one.rows)
        records.update(one.records)
    if as_json:
        from ingot.converters.json_yaml import encode

        left_out = [{"name": name, "why": why} for name, why in report.left_out]
        document = {
            "lake": str(order.out),
            "files": report.files,
            "statuses": dict(statuses),
            "worked": list(report.worked),
            "rows": dict(rows),
            "records": dict(records),
            "spent": asdict(spent),
            "seconds": round(report.seconds, 3),
            "sets": [
                {k: v for k, v in encode(one).items() if k not in ("mapping", "figures")}
                for one in sets
            ],
            "left_out": left_out,
        }
        print_json(document)
        return
    console = stdout_console()
    first = {one.status: one for one in sets}
    counts = ", ".join(f"{n:,} {_status_words(first[one])}" for one, n in statuses.most_common())
    console.print(plain_text(f"{count_text(len(sets), 'data set')}: {counts}", "bold"))
    parts = " + ".join(f"{rows[name]:,} {name}" for name in _ROWS)
    repeats = sum(one.figures.within + one.across for one in converted)
    tokens = [one.tokens for one in converted if one.tokens is not None]
    tokens_text = f", {sum(tokens):,} tokens" if tokens else ""
    written = f"{records['written']:,} records, {repeats:,} of them duplicates{tokens_text}"
    console.print(plain_text(f"{rows['read']:,} rows = {parts}; {written}"))
    if spent.calls:
        money = "price unknown" if spent.cost is None else f"${spent.cost:.4f}"
        usage = f"{spent.chars_sent:,} characters sent, {money}"
        console.print(plain_text(f"asked a model {spent.calls:,} times, {usage}"))
    if report.left_out:
        file = order.out / "left_out.jsonl"
        console.print(plain_text(f"{count_text(len(report.left_out), 'file')} left out: {file}"))
    for status in _OPEN:
        open_sets = [one for one in sets if one.status == status]
        for one in open_sets[:_MOST_SHOWN]:
            hint = f" ({one.hint})" if status == "failed" and one.hint else ""
            why = " ".join(one.why.split()) + hint
            note_line(f"{_status_words(one)}: {one.name}: {why}", _STYLES[status])
        if len(open_sets) > _MOST_SHOWN:
            note_line(
                f"... and {len(open_sets) - _MOST_SHOWN:,} more {_status_words(open_sets[0])}"
            )
    console.print(plain_text(f"page: {order.out / 'index.html'}"))
    if statuses["waiting"]:
        console.print(plain_text(f"to review: ingot lake review {order.out}"))


def _status_words(facts: "SetFacts") -> str:
    from ingot.converters.lake.catalog import status_text

    return status_text(facts.status)


@contextmanager
def _show_progress(*, quiet: bool = False) -> Iterator["Callable[[LakeProgress], None]"]:
    """Yield a listener that moves bars on a terminal, and else prints a line per data set.

    The watch of the job hears it all, also if `quiet`.
    """
    from ingot.converters.progress import Progress

    totals: Counter[str] = Counter()  # of all stages

    def listen(progress: "LakeProgress") -> None:
        if progress.facts is not None:
            rows, records = Counter(progress.facts.rows), Counter(progress.facts.records)
            totals.update(rows=rows["read"], records=records["written"])
            totals.update(rejects=rows["rejected"] + records["rejected"])
        tell_job(
            Progress(
                stage=progress.stage,
                shards_done=progress.done,
                shards=progress.whole,
                rows=totals["rows"],
                records=totals["records"],
                rejects=totals["rejects"],
            )
        )
        if move:
            move(progress.stage, progress.done, progress.whole, _bar_text(progress))
        elif not quiet and (line := _progress_line(progress)):
            style = _STYLES.get(progress.facts.status, "") if progress.facts else ""
            note_line(line, style)

    with open_bar(shown=not quiet) as move:
        yield listen


def _bar_text(progress: "LakeProgress") -> str:
    if progress.stage not in ("files", "data sets"):
        return ""
    name = safe_text(progress.facts.name).replace("\n", " ")[:40] if progress.facts else ""
    last = f" {name}: {_status_words(progress.facts)}" if progress.facts else ""
    return f"{progress.done:,} of {progress.whole:,}{last}"


def _progress_line(progress: "LakeProgress") -> str:
    if progress.sets is not None:
        return f"{count_text(progress.sets, 'data set')}, {progress.whole:,} of them new or changed"
    if progress.facts:
        written = progress.facts.records.get("written")
        records = "" if written is None else f", {written:,} records"
        status = f"{_status_words(progress.facts)}{records}"
        return f"[{progress.done:,}/{progress.whole:,}] {progress.facts.name}: {status}"
    return "" if progress.stage == "files" else progress.stage


_WAITING = 4  # processes that may wait for a model while others work


@command_options
def run(
    *,
    order: Annotated[LakeOrder, Only(mappings=Path(MAPPINGS))],
    shard: Shard = None,
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
            default="number of cores, plus 4 if a model is configured",
        ),
    ] = None,
    llm: ModelSettings,
    watch: Annotated[
        bool, Setting("Repeat the run for new and changed data sets, until interrupted.")
    ] = False,
    poll: Annotated[
        float,
        Setting(
            "With `watch`: seconds between runs; files changed in that time are for a later run.",
            metavar="S",
            minimum=0.1,
        ),
    ] = 30.0,
    dry_run: Annotated[
        bool,
        Setting(
            "List the data sets, convert nothing. Only the file scan is stored (DIR/.ingot-lake)."
        ),
    ] = False,
    strict: Annotated[
        bool, Setting("Exit with 1 if a data set is waiting, postponed or failed.")
    ] = False,
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Convert the new and changed data sets of a lake.

    Finds the data sets, maps and checks each of them, and converts those that pass. Writes sets/,
    mappings/, catalog.parquet and index.html into DIR, and corpus/ with --dedup or --split. Data
    sets that need a person wait until you run ingot lake review DIR.
    """
    model_settings = ask_settings(llm, order.mapper)
    if order.pin and order.share_values == "none":
        raise SettingError("--pin-sample stores values, --share-values none forbids it", "pin")
    order = replace(
        order,
        out=order.out.absolute(),
        mappings=(mappings or order.out / MAPPINGS).absolute(),
        asking=model_settings,
        dedup=dedup is not None,
        shard=shard,
        jobs=jobs or usable_cores() + (_WAITING if model_settings else 0),
    )
    if order.results is not None:
        from ingot.converters.convert.options import check_store_options
        from ingot.converters.output.store_commit import check_store

        check_store_options(order.results, order.records, order.tokenizer)
        order = replace(order, results=check_store(order.results))
    if dry_run:
        show_sets(order, as_json=as_json)
        return
    quiet = watching.log_format == "json" and watching.log_file is None
    with show_parts(as_json=as_json), watching.open("lake run"):
        if watch:
            watch_lake(order, poll, quiet=quiet, as_json=as_json)
            return
        report = _run_once(order, quiet=quiet)
    _show_report(order, report, as_json=as_json)
    if strict and any(one.status in _OPEN for one in report.sets):
        raise typer.Exit(ExitCode.FAILED)
