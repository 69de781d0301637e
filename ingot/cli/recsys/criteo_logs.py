"""`ingot criteo preprocess`: raw days to arrays and vocabularies.

`ingot criteo inspect`: preprocessed data in figures, in the terminal or as a page.
`ingot criteo multihot`: preprocessed ids, each made several, as archives.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.recsys.criteo.inspect.figures import Figures, Frequent
    from ingot.converters.recsys.criteo.multihot.job import Materialized
    from ingot.converters.recsys.criteo.preprocess.job import Preprocessed
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


def preprocess_criteo(
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
    from ingot.cli.console import print_json, progress_meter
    from ingot.converters.errors import ConversionError
    from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs, parse_days
    from ingot.converters.recsys.criteo.preprocess.job import preprocess as preprocessed
    from ingot.converters.recsys.criteo.preprocess.settings import Settings

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
    with progress_meter() as progress:
        done = preprocessed(
            inputs, settings, out, resume=resume, overwrite=overwrite, progress=progress
        )
    if as_json:
        told = {"out": str(done.out), "already_done": done.already_done, "notes": list(done.notes)}
        print_json({**told, "manifest": done.manifest, "stats": done.stats})
        return
    _print_preprocessed(done)


def _print_preprocessed(done: "Preprocessed") -> None:
    from ingot.cli.console import stdout_console
    from ingot.cli.display import print_grid

    print_grid(stdout_console(), list(_preprocess_lines(done)))


def _preprocess_lines(done: "Preprocessed") -> list[tuple[str, str]]:
    stats = done.stats
    lines = [("rows", f"{stats['rows']:,} of {stats['lines']:,} lines")]
    lines += [("rejected", f"{n:,}: {reason}") for reason, n in stats["rejects"].items()]
    if stats["rejects"]:
        lines.append(("", f"each with its place in {done.out / 'rejects.jsonl'}"))
    lines += [(part["name"], _part_text(part)) for part in stats["parts"]]
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


def _part_text(part: "dict[str, Json]") -> str:
    said = f"{part['rows']:,} rows"
    labels = part["labels"]
    known = labels["0"] + labels["1"]
    if known:
        said += f", {labels['1'] / known:.2%} clicked"
    if part["nonfinite"]:
        said += f", dense values that are no finite number: {part['nonfinite']:,}"
    return f"{said}, shuffled" if part["shuffled"] else said


_PART_HEADS = ("part", "rows", "label 1", "rate", "other", "rejected", "not finite", "order")
_DENSE_HEADS = ("dense", "missing", "not finite", "least", "largest", "mean")
_SPARSE_HEADS = ("sparse", "distinct", "missing", "rare", "max id")


def inspect_criteo(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of preprocessed data.", show_default=False),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a page with plots; DIR stays as it is.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", metavar="N", min=0, max=1000, help="Most frequent ids to show."),
    ] = 10,
    as_json: o.JsonOption = False,
) -> None:
    """Show preprocessed data in figures: rows, labels, missing values, ids and how often they are.

    They are those of DIR/stats.json and DIR/vocab; without these the arrays are counted.
    """
    from ingot.cli.console import print_json, stdout_console
    from ingot.cli.display import write_page
    from ingot.converters.recsys.criteo.inspect.folder import inspect as figures
    from ingot.converters.recsys.criteo.inspect.page import render_inspect_page

    told = figures(folder, top)
    if html is not None:
        write_page(html, render_inspect_page(told))
    if as_json:
        print_json(told.to_document())
    else:
        _show_figures(stdout_console(), told, html)


def _show_figures(console: "Console", told: "Figures", html: Path | None) -> None:
    from ingot.cli.console import plain_text
    from ingot.cli.display import drop_empty_columns, print_grid

    print_grid(console, list(_figure_facts(told, html)))
    for table in (_part_rows(told), _dense_rows(told), _sparse_rows(told)):
        console.print()
        print_grid(console, drop_empty_columns(list(table)))
    console.print()
    console.print(plain_text("Rows that the most frequent ids cover", "bold"))
    print_grid(console, list(_coverage_rows(told)))
    if any(one.top for one in told.sparse):
        console.print()
        console.print(plain_text("Most frequent ids: id, raw value, share of the rows", "bold"))
        rare = None if told.source == "arrays" else "rare"
        print_grid(console, [(one.name, _top_ids_text(one.top, rare)) for one in told.sparse])
    console.print()
    console.print(plain_text(f"num_embeddings = {told.num_embeddings}"), soft_wrap=True)
    for note in told.notes:
        console.print(plain_text(f"note: {note}", "yellow"), soft_wrap=True)


def _figure_facts(told: "Figures", html: Path | None) -> Iterator[tuple[str, str]]:
    from ingot.converters.output.pages import format_percent

    yield "folder", told.folder
    yield "figures of", "the arrays" if told.source == "arrays" else "stats.json, vocab/"
    yield "rows", f"{told.rows:,}"
    yield "label rate", format_percent(told.label_rate)
    if told.rejects:
        yield "rejected", ", ".join(f"{name} {count:,}" for name, count in told.rejects.items())
    if html is not None:
        yield "page", str(html)


def _part_rows(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_count, format_percent

    yield _PART_HEADS
    for one in told.parts:
        rejected = "" if one.rejects is None else format_count(sum(one.rejects.values()))
        rows, ones, other, nonfinite = map(
            format_count, (one.rows, one.ones, one.other, one.nonfinite)
        )
        order = {None: "", True: "shuffled", False: "kept"}[one.shuffled]
        yield (
            one.name,
            rows,
            ones,
            format_percent(one.label_rate),
            other,
            rejected,
            nonfinite,
            order,
        )


def _dense_rows(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_count, format_measure

    yield _DENSE_HEADS
    for one in told.dense:
        numbers = map(format_measure, (one.least, one.most, one.mean))
        yield one.name, _share_text(one.missing, told.rows), format_count(one.nonfinite), *numbers


def _sparse_rows(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_count

    yield _SPARSE_HEADS
    for one in told.sparse:
        rare = "" if one.rare is None else format_count(one.rare)
        yield (
            one.name,
            format_count(one.distinct),
            _share_text(one.missing, told.rows),
            rare,
            format_count(one.max_id),
        )


def _coverage_rows(told: "Figures") -> Iterator[tuple[str, ...]]:
    """The share of rows of so many most frequent ids."""
    from ingot.converters.output.pages import format_percent
    from ingot.converters.recsys.criteo.inspect.page import coverage_steps

    shown = coverage_steps(told.sparse)
    yield "ids", *(_power_text(ids) for ids in shown)
    for one in told.sparse:
        yield one.name, *(format_percent(one.covered(ids)) for ids in shown)


def _power_text(ids: int) -> str:
    """A power of ten in few letters."""
    return f"{ids // 10**6} M" if ids >= 10**6 else f"{ids // 1000} k" if ids >= 1000 else str(ids)


def _share_text(missing: int | None, rows: int) -> str:
    """The share of rows; nothing where it is not known."""
    from ingot.converters.output.pages import format_percent, share_of

    return "" if missing is None else format_percent(share_of(missing, rows))


def _top_ids_text(top: "tuple[Frequent, ...]", rare: str | None) -> str:
    """The ids with their values; `rare` stands for those that share an id."""
    from ingot.converters.output.pages import format_percent

    told = ((str(one.id), one.raw or rare, format_percent(one.share)) for one in top)
    return ", ".join(" ".join(filter(None, pieces)) for pieces in told) or "–"


def write_multihot(
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
    from ingot.cli.console import print_json, progress_meter
    from ingot.converters.recsys.criteo.multihot.job import load_config, materialize

    how = load_config(config)
    with progress_meter() as progress:
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
    _print_multihot(done)


def _print_multihot(done: "Materialized") -> None:
    from ingot.cli.console import stdout_console
    from ingot.cli.display import print_grid

    parts = done.manifest["parts"]
    sizes = done.manifest["parameters"]["sizes"]
    widened = sum(size > 1 for size in sizes)
    lines = [
        ("rows", f"{sum(one['rows'] for one in parts):,} of {len(parts)} parts"),
        ("ids", f"{sum(sizes)} a row; {widened} of {len(sizes)} features widened"),
        *(("note", note) for note in done.notes),
        ("files", str(done.out)),
    ]
    print_grid(stdout_console(), lines)
