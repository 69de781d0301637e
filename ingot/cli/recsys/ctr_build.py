"""`ingot ctr build`: raw rows to the processed contract.

`ingot ctr draft`: a featuremap proposed for a plain table.
"""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from ingot.converters.recsys.ctr.build.inputs import Inputs
    from ingot.converters.recsys.ctr.build.job import Built
    from ingot.converters.recsys.ctr.draft.featuremap_draft import Draft
    from ingot.converters.recsys.ctr.featuremap import FeatureMap
    from ingot.converters.rows import Json


class ClickMask(StrEnum):
    """What `click_mask` holds."""

    clicked = "clicked"
    exposed = "exposed"


class TailIds(StrEnum):
    """Where the ids of a hybrid's tail start."""

    disjoint = "disjoint"
    contract = "contract"


class Funnel(StrEnum):
    """What becomes of a conversion without a click."""

    keep = "keep"
    drop = "drop"
    coerce = "coerce"


_RAW, _MEANING = "Raw data", "In place of what the featuremap says"


def build(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="The folder to be made.", show_default=False),
    ],
    featuremap: Annotated[
        str,
        typer.Option(
            "--featuremap",
            metavar="NAME|FILE",
            help="aliccp (its 23 features), or a YAML file: docs/ctr.md.",
            show_default=False,
        ),
    ],
    skeleton: Annotated[
        str | None,
        typer.Option(
            "--skeleton",
            metavar="FILE",
            help="Ali-CCP's sample_skeleton file.",
            rich_help_panel=_RAW,
            show_default=False,
        ),
    ] = None,
    common: Annotated[
        str | None,
        typer.Option(
            "--common",
            metavar="FILE",
            help="Ali-CCP's common_features file.",
            rich_help_panel=_RAW,
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE",
            help="A plain table (CSV or Parquet) in place of these two.",
            rich_help_panel=_RAW,
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option(
            "--vocab",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Vocabularies of an earlier build, in place of new ones from the train rows.",
            show_default=False,
        ),
    ] = None,
    train_fraction: Annotated[
        float | None,
        typer.Option(
            "--train-fraction",
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Share of the entities whose rows are train.",
            rich_help_panel=_MEANING,
            show_default=False,
        ),
    ] = None,
    click_mask: Annotated[
        ClickMask | None,
        typer.Option(
            "--click-mask",
            help="click_mask is y_ctr, or 1 for every row.",
            rich_help_panel=_MEANING,
            show_default=False,
        ),
    ] = None,
    tail_ids: Annotated[
        TailIds | None,
        typer.Option(
            "--tail-ids",
            help="A hybrid's tail after its vocabulary, or at 2 as the contract's text has it.",
            rich_help_panel=_MEANING,
            show_default=False,
        ),
    ] = None,
    funnel: Annotated[
        Funnel | None,
        typer.Option(
            "--funnel",
            help="Rows with a conversion and no click: kept, dropped, or made no conversion.",
            rich_help_panel=_MEANING,
            show_default=False,
        ),
    ] = None,
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Write train/ and valid/ of the processed contract, with vocabularies and statistics."""
    from ingot.cli.console import print_json, progress_meter
    from ingot.converters.recsys.ctr.build.job import build as built
    from ingot.converters.recsys.ctr.featuremap import load

    wanted = {
        "train_ratio": train_fraction,
        "click_mask": click_mask and click_mask.value,
        "tail_ids": tail_ids and tail_ids.value,
        "funnel": funnel and funnel.value,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    inputs = _make_inputs(skeleton, common, table)
    chosen: FeatureMap = replace(load(featuremap), **given)  # type: ignore[arg-type]
    with progress_meter() as progress:
        done = built(inputs, chosen, out, vocab=vocab, overwrite=overwrite, progress=progress)
    if as_json:
        told = {"out": str(done.out), "already_done": done.already_done, "notes": list(done.notes)}
        print_json({**told, "manifest": done.manifest, "stats": done.stats})
        return
    _print_build(done)


def _make_inputs(skeleton: str | None, common: str | None, table: str | None) -> "Inputs":
    from ingot.converters.recsys.ctr.build.inputs import Aliccp, PlainTable

    if table is not None and skeleton is None and common is None:
        return PlainTable(table=table)
    if table is None and skeleton is not None and common is not None:
        return Aliccp(skeleton=skeleton, common=common)
    raise typer.BadParameter("give --skeleton and --common, or --table alone")


def _print_build(done: "Built") -> None:
    from ingot.cli.console import stdout_console
    from ingot.cli.display import print_grid

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
    told = [f"{count:,}: {reason}" for reason, count in stats["rejects"].items()]
    told += [
        f"{n:,}: {reason}, of common features" for reason, n in stats["common_rejects"].items()
    ]
    lines += [("rejected", one) for one in told]
    if told:
        lines.append(("", f"each with its place in {done.out / 'rejects.jsonl'}"))
    lines += _split_lines(stats)
    entities, tokens = stats["entities"], stats["tokens"]
    lines.append(("entities", _parts_text(entities, "in_rows", "unknown", "repeated")))
    odd = {name: count for name, count in tokens.items() if count and name != "read"}
    lines.append(
        (
            "tokens",
            f"{tokens['read']:,} read" + "".join(f", {n:,} {name}" for name, n in odd.items()),
        )
    )
    if stats["samples"]["repeated"]:
        lines.append(("samples", f"{stats['samples']['repeated']:,} repeated ids"))
    lines += [("note", note) for note in done.notes]
    return [*lines, ("files", str(done.out))]


def _parts_text(numbers: "dict[str, Json]", *names: str) -> str:
    there = [name for name in names if numbers[name] is not None]
    return ", ".join(f"{numbers[name]:,} {name.replace('_', ' ')}" for name in there)


def _split_lines(stats: "dict[str, Json]") -> "list[tuple[str, str]]":
    lines = []
    for name, split in stats["splits"].items():
        rows, clicks = split["rows"], split["y_ctr"]
        said = f"{rows:,} rows"
        if rows:
            said += f", ctr {clicks / rows:.3%}, cvr {split['y_cvr'] / rows:.4%} of impressions"
        if split["funnel_anomalies"]:
            count = split["funnel_anomalies"]
            said += f", {count:,} conversion{'s' * (count != 1)} without a click"
        lines.append((name, said))
    return lines


_KNOWN = "Columns that you know"


def draft(
    table: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A plain table: CSV, TSV, Parquet or Arrow; a folder or glob of them.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the featuremap here.  [default: stdout]",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(
            "--rows", metavar="N", min=0, help="Look at the first so many rows; 0 = at all."
        ),
    ] = 200_000,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="COLUMN",
            help="The click, 0 or 1.",
            rich_help_panel=_KNOWN,
            show_default=False,
        ),
    ] = None,
    conversion: Annotated[
        str | None,
        typer.Option(
            "--conversion",
            metavar="COLUMN",
            help="The conversion, 0 or 1.",
            rich_help_panel=_KNOWN,
            show_default=False,
        ),
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option(
            "--entity",
            metavar="COLUMN",
            help="What splits rows, such as the user: no entity is in both splits.",
            rich_help_panel=_KNOWN,
            show_default=False,
        ),
    ] = None,
    sample_id: Annotated[
        str | None,
        typer.Option(
            "--sample-id",
            metavar="COLUMN",
            help="The row's own id; repeated ones are counted.",
            rich_help_panel=_KNOWN,
            show_default=False,
        ),
    ] = None,
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Propose a featuremap for a table from its statistics, with the reasons, for review."""
    from ingot.converters.errors import OutputError
    from ingot.converters.output.commit import output_errors, write_file
    from ingot.converters.recsys.ctr.draft.featuremap_draft import ChosenColumns
    from ingot.converters.recsys.ctr.draft.featuremap_draft import draft as drafted

    if out is not None and out.exists() and not overwrite:
        raise OutputError(str(out), "is there already", "choose another name, or: --overwrite")
    chosen = ChosenColumns(click=label, conversion=conversion, entity=entity, sample=sample_id)
    made = drafted(table, rows=rows or None, chosen=chosen)
    if out is not None:
        with output_errors(out):
            write_file(out, made.text.encode())
    _print_draft(made, table, out, as_json=as_json)


def _print_draft(made: "Draft", table: str, out: Path | None, *, as_json: bool) -> None:
    """The result on stdout, what is doubtful on stderr."""
    from ingot.cli.console import plain_text, print_json, safe_text, stderr_console, stdout_console

    if as_json:
        told = {"out": None if out is None else str(out), "featuremap": made.text}
        print_json({**told, **made.to_json()})
        return
    for doubt in made.doubts:
        stderr_console().print(plain_text(f"look at: {doubt}"))
    if out is None:
        typer.echo(safe_text(made.text), nl=False)
        return
    used = sum(one.feature is not None for one in made.decisions)
    part = "all" if made.whole else "the first"
    stdout_console().print(
        plain_text(f"{used} features from {part} {made.rows:,} rows of {table}: {out}")
    )
