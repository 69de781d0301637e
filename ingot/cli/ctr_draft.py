"""`ingot ctr draft`: a featuremap proposed for a plain table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from ingot.converters.ctr.drafting.draft import Draft

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
    from ingot.converters.commit import write_file, writing
    from ingot.converters.ctr.drafting.draft import Chosen
    from ingot.converters.ctr.drafting.draft import draft as drafted
    from ingot.converters.errors import OutputError

    if out is not None and out.exists() and not overwrite:
        raise OutputError(str(out), "is there already", "choose another name, or: --overwrite")
    chosen = Chosen(click=label, conversion=conversion, entity=entity, sample=sample_id)
    made = drafted(table, rows=rows or None, chosen=chosen)
    if out is not None:
        with writing(out):
            write_file(out, made.text.encode())
    _tell(made, table, out, as_json=as_json)


def _tell(made: "Draft", table: str, out: Path | None, *, as_json: bool) -> None:
    """The result on stdout, what is doubtful on stderr."""
    from ingot.cli.console import notes, output, plain, print_json, safe

    if as_json:
        told = {"out": None if out is None else str(out), "featuremap": made.text}
        print_json({**told, **made.to_json()})
        return
    for doubt in made.doubts:
        notes().print(plain(f"look at: {doubt}"))
    if out is None:
        typer.echo(safe(made.text), nl=False)
        return
    used = sum(one.feature is not None for one in made.decisions)
    part = "all" if made.whole else "the first"
    output().print(plain(f"{used} features from {part} {made.rows:,} rows of {table}: {out}"))
