"""`ingot criteo preprocess`: raw days to arrays and vocabularies."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from ingot.converters.criteo.preprocess import Preprocessed
    from ingot.converters.rows import Json


class Dense(StrEnum):
    """What becomes of dense values."""

    ln3 = "ln3"
    min2 = "min2"


class Compat(StrEnum):
    """Whether ids keep all their bits."""

    exact = "exact"
    torchrec_f32 = "torchrec_f32"


class Encode(StrEnum):
    """How many maps are in memory."""

    stream = "stream"
    columns = "columns"


class Unseen(StrEnum):
    """What values get that a vocabulary does not have."""

    new = "new"
    one = "1"


_VALUES, _SHUFFLE, _WORK = "Values and ids", "Shuffle", "Run"


def preprocess(
    input_dir: Annotated[
        str,
        typer.Option(
            "--input-dir",
            metavar="DIR",
            help="Folder or URL with day_0, day_1, ... or train.txt; plain or compressed.",
            show_default=False,
        ),
    ],
    out: o.OutOption,
    days: Annotated[
        str | None,
        typer.Option(
            "--days",
            metavar="DAYS",
            help="Days to read, as 0-23 or 0,3,5-7; all that are there by default. "
            "The last one is the test day.",
            show_default=False,
        ),
    ] = None,
    dense: Annotated[
        Dense,
        typer.Option(
            "--dense",
            help="ln(x + 3), or ln(x - least of the file + 2).",
            rich_help_panel=_VALUES,
        ),
    ] = Dense.ln3,
    frequency_threshold: Annotated[
        int,
        typer.Option(
            "--frequency-threshold",
            metavar="N",
            min=0,
            max=(1 << 63) - 1,
            help="Values seen less often get id 1.",
            rich_help_panel=_VALUES,
        ),
    ] = 0,
    vocab: Annotated[
        Path | None,
        typer.Option(
            "--vocab",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Result of an earlier run, whose values keep their ids.",
            rich_help_panel=_VALUES,
            show_default=False,
        ),
    ] = None,
    unseen: Annotated[
        Unseen,
        typer.Option(
            "--unseen",
            help="With --vocab: other values get ids of their own, or id 1.",
            rich_help_panel=_VALUES,
        ),
    ] = Unseen.new,
    shuffle_seed: Annotated[
        int,
        typer.Option(
            "--shuffle-seed",
            metavar="SEED",
            min=0,
            max=(1 << 32) - 1,
            help="Of the order of the training days, which are shuffled together.",
            rich_help_panel=_SHUFFLE,
        ),
    ] = 0,
    no_shuffle: Annotated[
        bool,
        typer.Option("--no-shuffle", help="Keep the order.", rich_help_panel=_SHUFFLE),
    ] = False,
    compat: Annotated[
        Compat,
        typer.Option(
            "--compat",
            help="torchrec_f32: round the ids of shuffled days through float32, as the public "
            "files are.",
            rich_help_panel=_SHUFFLE,
        ),
    ] = Compat.exact,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="End at the first line that is no row.", rich_help_panel=_WORK
        ),
    ] = False,
    encode: Annotated[
        Encode,
        typer.Option(
            "--encode",
            help="All maps of values in memory, or one column at a time; the same result.",
            rich_help_panel=_WORK,
        ),
    ] = Encode.stream,
    threads: Annotated[
        int,
        typer.Option(
            "--threads",
            metavar="N",
            min=0,
            help="Threads, 0.4 GB each; 0: one for each core, at most 16. The same result.",
            rich_help_panel=_WORK,
        ),
    ] = 0,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--no-resume",
            help="Go on with a run that was broken off, or begin anew.",
            rich_help_panel=_WORK,
        ),
    ] = True,
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Write the arrays of every day, the vocabularies of the 26 columns, and statistics."""
    from ingot.cli.console import meter, print_json
    from ingot.converters.criteo.preprocess import preprocess as preprocessed
    from ingot.converters.criteo.preprocessing.inputs import find_inputs, parse_days
    from ingot.converters.criteo.preprocessing.settings import Settings
    from ingot.converters.errors import ConversionError

    if unseen is Unseen.one and vocab is None:
        raise typer.BadParameter("--unseen 1 needs --vocab DIR: what is unseen otherwise?")
    settings = Settings(
        dense=dense.value,
        frequency_threshold=frequency_threshold,
        shuffle_seed=None if no_shuffle else shuffle_seed,
        compat=compat.value,
        encode=encode.value,
        vocab=vocab,
        unseen=unseen.value,
        strict=strict,
        threads=threads,
    )
    try:
        chosen = None if days is None else parse_days(days)
    except ConversionError as error:
        raise typer.BadParameter(str(error)) from error
    inputs = find_inputs(input_dir, chosen)
    with meter() as progress:
        done = preprocessed(
            inputs, settings, out, resume=resume, overwrite=overwrite, progress=progress
        )
    if as_json:
        told = {"out": str(done.out), "already_done": done.already_done, "notes": list(done.notes)}
        print_json({**told, "manifest": done.manifest, "stats": done.stats})
        return
    _print(done)


def _print(done: "Preprocessed") -> None:
    from ingot.cli.console import output
    from ingot.cli.show import grid

    grid(output(), list(_lines(done)))


def _lines(done: "Preprocessed") -> list[tuple[str, str]]:
    stats = done.stats
    lines = [("rows", f"{stats['rows']:,} of {stats['lines']:,} lines")]
    lines += [("rejected", f"{n:,}: {reason}") for reason, n in stats["rejects"].items()]
    if stats["rejects"]:
        lines.append(("", f"each with its place in {done.out / 'rejects.jsonl'}"))
    lines += [(part["name"], _part(part)) for part in stats["parts"]]
    values = sum(column["distinct"] for column in stats["sparse"])
    largest = max(stats["sparse"], key=lambda column: column["distinct"])
    lines.append(
        ("values", f"{values:,} distinct, most in {largest['name']}: {largest['distinct']:,}")
    )
    if rare := sum(column["rare_rows"] for column in stats["sparse"]):
        lines.append(("id 1", f"{rare:,} of {26 * stats['rows']:,} cells: rare or unseen values"))
    if any(part["nonfinite"] for part in stats["parts"]):
        lines.append(("", "training does not survive -inf and NaN: docs/criteo.md, Dense values"))
    lines += [("note", note) for note in done.notes]
    return [*lines, ("files", str(done.out))]


def _part(part: "dict[str, Json]") -> str:
    said = f"{part['rows']:,} rows"
    labels = part["labels"]
    known = labels["0"] + labels["1"]
    if known:
        said += f", {labels['1'] / known:.2%} clicked"
    if part["nonfinite"]:
        said += f", dense values that are no finite number: {part['nonfinite']:,}"
    return f"{said}, shuffled" if part["shuffled"] else said
