"""`ingot ctr build`, `draft`, `validate` and `stats`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import command as o
from ingot.cli import display
from ingot.cli.command import check_free, command_options, run_job
from ingot.cli.console import (
    JobOptions,
    note_line,
    plain_text,
    print_json,
    print_line,
    progress_meter,
    safe_text,
    stdout_console,
)
from ingot.converters.convert.options import Overwrite
from ingot.converters.errors import count_text
from ingot.converters.output.sharding import Spread
from ingot.converters.recsys.ctr.settings import ChosenColumns, Overrides, RawFiles
from ingot.converters.settings import Setting, existing_folder

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.output.identity import CommittedResult
    from ingot.converters.recsys.ctr.validation.findings import Place, Report
    from ingot.converters.rows import Json


_STYLES = {"passed": "green", "broken": "red", "not checked": "yellow"}

_Featuremap = Annotated[
    str | None,
    Setting(
        "Featuremap to use instead of DIR/featuremap.yaml, for files of another writer.",
        metavar="NAME|FILE",
    ),
]


@command_options
def validate_ctr(
    folder: o.Folder,
    featuremap: _Featuremap = None,
    max_shown: Annotated[
        int, Setting("Number of places to show per broken rule.", metavar="N", minimum=1)
    ] = 3,
    as_json: o.Json = False,
) -> None:
    """Check a processed folder against every rule of the contract (docs/ctr.md).

    The exit code is 1 if a rule is broken; file, row, column and the value found are shown.
    """
    from ingot.converters.errors import ConversionError
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.validation.validator import validate

    override = load(featuremap) if featuremap else None
    with progress_meter() as progress:
        report = validate(folder, given=override, max_shown=max_shown, progress=progress)
    if as_json:
        print_json(report.to_document())
    else:
        _show_report(stdout_console(), report)
    if report.broken:
        numbers = ", ".join(one.rule.number for one in report.broken)
        noun = "rules are" if len(report.broken) > 1 else "rule is"
        raise ConversionError(str(folder), f"{len(report.broken)} {noun} broken: {numbers}")


def _show_report(console: "Console", report: "Report") -> None:
    states = [one.state for one in report.verdicts]
    facts = [
        ("folder", report.folder),
        ("rows", ", ".join(f"{rows:,} {split}" for split, rows in report.rows.items())),
        ("profile", ", ".join(f"{key} {value}" for key, value in (report.profile or {}).items())),
        ("rules", ", ".join(f"{states.count(state)} {state}" for state in _STYLES)),
    ]
    display.print_grid(console, [one for one in facts if one[1] or one[0] != "profile"])
    for one in report.verdicts:
        line = f"{one.rule.number:<6} {one.state:<12} {one.rule.wants}"
        console.print(plain_text(line, _STYLES[one.state]), soft_wrap=True)
        if one.why:
            console.print(plain_text(f"       {one.why}", "dim"), soft_wrap=True)
        lines = [_place_line(place) for place in one.places]
        if one.count > len(lines):
            lines.append(f"and {one.count - len(lines):,} more")
        for place in lines:
            console.print(plain_text(f"       {place}"), soft_wrap=True)
    display.show_notes(console, report.notes)


def _place_line(place: "Place") -> str:
    row = "" if place.row is None else f" row {place.row}"
    column = "" if place.column is None else f" {place.column}"
    return " ".join(f"{place.file}{row}{column}: {place.found}".split())


@command_options
def show_ctr_stats(
    folder: o.Folder,
    html: o.HtmlFile = None,
    featuremap: _Featuremap = None,
    as_json: o.Json = False,
) -> None:
    """Show statistics of a processed folder: rows, ctr, cvr, missing values, oov, list lengths.

    They are read from DIR/stats.json; without that file the rows are counted.
    """
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.validation.figures import read_figures
    from ingot.converters.recsys.ctr.validation.stats_page import render_stats_page, stats_sections

    figures = read_figures(folder, load(featuremap) if featuremap else None)
    display.print_figures(
        figures,
        stats_sections,
        render_stats_page,
        notes=figures.notes,
        html=html,
        as_json=as_json,
    )


@command_options
def build(
    *,
    out: o.OutPlace,
    featuremap: Annotated[
        str, Setting("Featuremap: aliccp, or a YAML file (docs/ctr.md).", metavar="NAME|FILE")
    ],
    raw: RawFiles,
    vocab: Annotated[
        Path | None,
        Setting(
            "Earlier build whose vocabularies are reused; by default, new ones are made.",
            metavar="DIR",
            parse=existing_folder,
        ),
    ] = None,
    accept_unseen: Annotated[
        bool, Setting("With `vocab`: build although the rows do not fit to these vocabularies.")
    ] = False,
    overrides: Overrides,
    spread: Spread,
    overwrite: Overwrite = False,
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Write train/ and valid/ with the documented schema, vocabularies and statistics."""
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.preprocess.job import build as build_ctr

    inputs, chosen = raw.inputs(), overrides.apply_to(load(featuremap))
    with run_job(watching, "ctr build", as_json=as_json) as progress:
        done = build_ctr(
            inputs,
            chosen,
            out,
            vocab=vocab,
            accept_unseen=accept_unseen,
            overwrite=overwrite,
            progress=progress,
            spread=spread,
        )
    documents = {"manifest": done.manifest, "stats": done.stats}
    display.print_result(done, _build_lines(done), as_json=as_json, **documents)


def _build_lines(done: "CommittedResult") -> Iterator[tuple[str, str]]:
    stats = done.stats
    rows, tokens = stats["rows"], stats["tokens"]
    parts = _parts_text(rows, "train", "valid", "rejected", "dropped")
    yield "rows", f"{rows['read']:,} read: {parts}"
    common = {f"{why}, of common features": n for why, n in stats["common_rejects"].items()}
    yield from display.reject_lines({**stats["rejects"], **common}, f"{done.out}/rejects.jsonl")
    for name, split in stats["splits"].items():
        rows, clicks = split["rows"], split["y_ctr"]
        text = f"{rows:,} rows"
        if rows:
            text += f", ctr {clicks / rows:.3%}, cvr {split['y_cvr'] / rows:.4%} of impressions"
        if split["funnel_anomalies"]:
            text += f", {count_text(split['funnel_anomalies'], 'conversion')} without a click"
        yield name, text
    yield "entities", _parts_text(stats["entities"], "in_rows", "unknown", "repeated")
    unusual = {name: count for name, count in tokens.items() if count and name != "read"}
    unusual_text = "".join(f", {count:,} {name}" for name, count in unusual.items())
    yield "tokens", f"{tokens['read']:,} read{unusual_text}"
    if stats["samples"]["repeated"]:
        yield "samples", f"{stats['samples']['repeated']:,} repeated ids"
    for name, one in stats["vocab"].items():
        if "new_expected" in one:
            shares = (
                f"{one[key] / max(1, one['new_tokens']):.2%}"
                for key in ("new_unseen", "new_expected")
            )
            yield "unseen", f"{name}: {' of its tokens, expected '.join(shares)}"


def _parts_text(numbers: "dict[str, Json]", *names: str) -> str:
    known_names = [name for name in names if numbers[name] is not None]
    return ", ".join(f"{numbers[name]:,} {name.replace('_', ' ')}" for name in known_names)


@command_options
def draft(
    *,
    table: Annotated[
        str,
        Setting(
            "Table: CSV, TSV, Parquet or Arrow; a folder or glob of them.",
            metavar="FILE",
            positional=True,
        ),
    ],
    out: o.OutFile = None,
    rows: Annotated[
        int, Setting("Number of rows to sample, the first ones; 0 = all.", metavar="N", minimum=0)
    ] = 200_000,
    chosen: ChosenColumns,
    overwrite: Overwrite = False,
    as_json: o.Json = False,
) -> None:
    """Propose a featuremap for a table from its statistics, with reasons, for review."""
    from ingot.converters.recsys.ctr.draft.featuremap_draft import draft as draft_featuremap

    check_free(out, overwrite=overwrite)
    proposed = draft_featuremap(table, rows=rows or None, chosen=chosen)
    if out is not None:
        display.write_output(out, proposed.text.encode())
    if as_json:
        document = {"out": None if out is None else str(out), "featuremap": proposed.text}
        print_json({**document, **proposed.to_json()})
        return
    for doubt in proposed.doubts:
        note_line(f"please check: {doubt}")
    if out is None:
        typer.echo(safe_text(proposed.text), nl=False)
        return
    used = sum(one.feature is not None for one in proposed.decisions)
    part = "all" if proposed.whole else "the first"
    print_line(f"{used} features from {part} {proposed.rows:,} rows of {table}: {out}")
