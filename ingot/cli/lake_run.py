"""`ingot lake run`: every data set below a folder or URL, mapped, gated, converted, catalogued."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.grouped import expands
from ingot.cli.model_options import ModelOptions

if TYPE_CHECKING:
    from ingot.converters.lake.splits import Splits

_POLL = 30.0
_WAITING = 4  # processes that may wait for a model while others work
_CORPUS = "What training reads"


class Dedup(StrEnum):
    """Which repeats are left out."""

    exact = "exact"


def _splits(text: str | None) -> "Splits | None":
    """The splits that were asked for.

    Raises:
        typer.BadParameter: they are none.
    """
    from ingot.converters.errors import ConversionError
    from ingot.converters.lake import splits

    try:
        return None if text is None else splits.parse(text)
    except ConversionError as error:
        raise typer.BadParameter(str(error)) from error


@expands
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
    from ingot.agent.lake.order import MAPPINGS, LakeOrder
    from ingot.cli.lake_view import show_run, show_sets, watch_lake

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
        splits=_splits(split),
        jobs=jobs or (os.cpu_count() or 1) + (_WAITING if asked else 0),
    )
    if dry_run:
        show_sets(order, as_json=as_json)
    elif watch:
        watch_lake(order, poll, as_json=as_json)
    else:
        show_run(order, strict=strict, as_json=as_json)
