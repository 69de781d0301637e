"""`ingot criteo multihot`: preprocessed ids, each made several, as archives."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from ingot.converters.criteo.materialize import Materialized


def multihot(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of preprocessed data.", show_default=False),
    ],
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            metavar="FILE",
            help="JSON or YAML: num_embeddings, multi_hot_size, ...: docs/criteo.md.",
            show_default=False,
        ),
    ],
    out: o.OutOption,
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables",
            metavar="DIR",
            help="Keep the tables here for the next time.  [default: beside OUT, then deleted]",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option("--threads", metavar="N", min=0, help="Features at a time; 0 = all cores."),
    ] = 0,
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Write day_0_sparse_multi_hot.npz, ... of preprocessed data, every id made several.

    Ids are taken modulo num_embeddings. Dense values and labels are linked into the new folder.
    """
    from ingot.cli.console import meter, print_json
    from ingot.converters.criteo.materialize import materialize
    from ingot.converters.criteo.widening.config import load

    how = load(config)
    with meter() as progress:
        done = materialize(
            folder,
            how,
            out,
            tables=tables,
            threads=threads,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        told = {"out": str(done.out), "already_done": done.already_done, "notes": list(done.notes)}
        print_json({**told, "manifest": done.manifest})
        return
    _print(done)


def _print(done: "Materialized") -> None:
    from ingot.cli.console import output
    from ingot.cli.show import grid

    parts = done.manifest["parts"]
    sizes = done.manifest["parameters"]["sizes"]
    widened = sum(size > 1 for size in sizes)
    lines = [
        ("rows", f"{sum(one['rows'] for one in parts):,} of {len(parts)} parts"),
        ("ids", f"{sum(sizes)} a row; {widened} of {len(sizes)} features widened"),
        *(("note", note) for note in done.notes),
        ("files", str(done.out)),
    ]
    grid(output(), lines)
