"""`ingot ctr build` and `ingot ctr draft`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.console import (
    note_line,
    print_json,
    print_line,
    progress_meter,
    safe_text,
    stdout_console,
)
from ingot.cli.display import count_text, note_rows, print_grid, reject_lines, result_document
from ingot.cli.options import check_free, command_options
from ingot.converters.convert.options import Overwrite
from ingot.converters.recsys.ctr.settings import ChosenColumns, Overrides, RawFiles
from ingot.converters.settings import Setting, existing_folder

if TYPE_CHECKING:
    from ingot.converters.recsys.ctr.build.job import Built
    from ingot.converters.recsys.ctr.draft.featuremap_draft import Draft
    from ingot.converters.rows import Json


@command_options
def build(
    *,
    out: o.OutFolder,
    featuremap: Annotated[
        str,
        Setting("Featuremap: aliccp, or a YAML file (docs/ctr.md).", metavar="NAME|FILE"),
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
    overrides: Overrides,
    overwrite: Overwrite = False,
    as_json: o.Json = False,
) -> None:
    """Write train/ and valid/ with the documented schema, vocabularies and statistics."""
    from ingot.converters.recsys.ctr.build.job import build as build_ctr
    from ingot.converters.recsys.ctr.featuremap import load

    inputs, chosen = raw.inputs(), overrides.apply_to(load(featuremap))
    with progress_meter() as progress:
        done = build_ctr(inputs, chosen, out, vocab=vocab, overwrite=overwrite, progress=progress)
    if as_json:
        print_json({**result_document(done), "manifest": done.manifest, "stats": done.stats})
    else:
        print_grid(stdout_console(), list(_build_lines(done)))


def _build_lines(done: "Built") -> "list[tuple[str, str]]":
    stats = done.stats
    rows = stats["rows"]
    lines = [
        (
            "rows",
            f"{rows['read']:,} read: " + _parts_text(rows, "train", "valid", "rejected", "dropped"),
        )
    ]
    common = {f"{why}, of common features": n for why, n in stats["common_rejects"].items()}
    lines += reject_lines({**stats["rejects"], **common}, done.out)
    lines += _split_lines(stats)
    entities, tokens = stats["entities"], stats["tokens"]
    lines.append(("entities", _parts_text(entities, "in_rows", "unknown", "repeated")))
    unusual = {name: count for name, count in tokens.items() if count and name != "read"}
    lines.append(
        (
            "tokens",
            f"{tokens['read']:,} read" + "".join(f", {n:,} {name}" for name, n in unusual.items()),
        )
    )
    if stats["samples"]["repeated"]:
        lines.append(("samples", f"{stats['samples']['repeated']:,} repeated ids"))
    lines += note_rows(done.notes)
    return [*lines, ("files", str(done.out))]


def _parts_text(numbers: "dict[str, Json]", *names: str) -> str:
    there = [name for name in names if numbers[name] is not None]
    return ", ".join(f"{numbers[name]:,} {name.replace('_', ' ')}" for name in there)


def _split_lines(stats: "dict[str, Json]") -> "list[tuple[str, str]]":
    lines = []
    for name, split in stats["splits"].items():
        rows, clicks = split["rows"], split["y_ctr"]
        text = f"{rows:,} rows"
        if rows:
            text += f", ctr {clicks / rows:.3%}, cvr {split['y_cvr'] / rows:.4%} of impressions"
        if split["funnel_anomalies"]:
            text += f", {count_text(split['funnel_anomalies'], 'conversion')} without a click"
        lines.append((name, text))
    return lines


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
    from ingot.converters.output.files import output_errors, write_file
    from ingot.converters.recsys.ctr.draft.featuremap_draft import draft as draft_featuremap

    check_free(out, overwrite=overwrite)
    made = draft_featuremap(table, rows=rows or None, chosen=chosen)
    if out is not None:
        with output_errors(out):
            write_file(out, made.text.encode())
    _print_draft(made, table, out, as_json=as_json)


def _print_draft(made: "Draft", table: str, out: Path | None, *, as_json: bool) -> None:
    """Print the result on stdout and doubts on stderr."""
    if as_json:
        document = {"out": None if out is None else str(out), "featuremap": made.text}
        print_json({**document, **made.to_json()})
        return
    for doubt in made.doubts:
        note_line(f"please check: {doubt}")
    if out is None:
        typer.echo(safe_text(made.text), nl=False)
        return
    used = sum(one.feature is not None for one in made.decisions)
    part = "all" if made.whole else "the first"
    print_line(f"{used} features from {part} {made.rows:,} rows of {table}: {out}")
