"""`ingot criteo preprocess`, `ingot criteo inspect` and `ingot criteo multihot`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ingot.cli import command as o
from ingot.cli import display
from ingot.cli.command import Only, command_options, run_job
from ingot.cli.console import JobOptions
from ingot.converters.convert.options import Overwrite
from ingot.converters.output.sharding import Spread
from ingot.converters.recsys.criteo.preprocess.settings import RUN, SHUFFLE, Settings
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.converters.output.identity import CommittedResult
    from ingot.converters.rows import Json


def _read_days(text: str) -> tuple[int, ...]:
    from ingot.converters.recsys.criteo.preprocess.inputs import parse_days

    return parse_days(text)


@command_options
def preprocess_criteo(
    *,
    input_dir: Annotated[
        str,
        Setting(
            "Folder or URL with day_0, day_1, ... or train.txt, plain or compressed.", metavar="DIR"
        ),
    ],
    out: o.OutPlace,
    days: Annotated[
        tuple[int, ...] | None,
        Setting(
            "Days to read, such as 0-23 or 0,3,5-7. The last one is the test day.",
            metavar="DAYS",
            default="all that exist",
            parse=_read_days,
        ),
    ] = None,
    settings: Settings,
    no_shuffle: Annotated[bool, Setting("Keep the order of the rows.", section=SHUFFLE)] = False,
    resume: Annotated[
        bool,
        Setting("Resume an interrupted run, or start again.", section=RUN, negative="no-resume"),
    ] = True,
    overwrite: Overwrite = False,
    spread: Annotated[Spread, Only("runner shard ray_address tmp_dir")],
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Write the arrays of every day, the vocabularies of the 26 columns, and statistics."""
    from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
    from ingot.converters.recsys.criteo.preprocess.job import preprocess

    if no_shuffle:
        settings = replace(settings, shuffle_seed=None)
    inputs = find_inputs(input_dir, days)
    with run_job(watching, "criteo preprocess", as_json=as_json) as progress:
        done = preprocess(
            inputs,
            settings,
            out,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            spread=spread,
        )
    documents = {"manifest": done.manifest, "stats": done.stats}
    display.print_result(done, _preprocess_lines(done), as_json=as_json, **documents)


def _preprocess_lines(done: "CommittedResult") -> Iterator[tuple[str, str]]:
    stats = done.stats
    yield "rows", f"{stats['rows']:,} of {stats['lines']:,} lines"
    yield from display.reject_lines(stats["rejects"], f"{done.out}/rejects.jsonl")
    yield from ((part["name"], _part_text(part)) for part in stats["parts"])
    values = sum(column["distinct"] for column in stats["sparse"])
    largest = max(stats["sparse"], key=lambda column: column["distinct"])
    largest_text = f"most in {largest['name']}: {largest['distinct']:,}"
    yield "values", f"{values:,} distinct, {largest_text}"
    if rare := sum(column["rare_rows"] for column in stats["sparse"]):
        yield "id 1", f"{rare:,} of {26 * stats['rows']:,} cells: rare or unseen values"
    if any(part["nonfinite"] for part in stats["parts"]):
        yield "", "training does not survive -inf and NaN: docs/criteo.md, Dense values"


def _part_text(part: "dict[str, Json]") -> str:
    text = f"{part['rows']:,} rows"
    labels = part["labels"]
    known = labels["0"] + labels["1"]
    if known:
        text += f", {labels['1'] / known:.2%} clicked"
    if part["nonfinite"]:
        text += f", {part['nonfinite']:,} dense values that are not finite"
    return f"{text}, shuffled" if part["shuffled"] else text


@command_options
def inspect_criteo(
    folder: o.Folder,
    html: o.HtmlFile = None,
    top: Annotated[
        int,
        Setting("Number of the most frequent ids to show.", metavar="N", minimum=0, maximum=1000),
    ] = 10,
    as_json: o.Json = False,
) -> None:
    """Show statistics of preprocessed data: rows, labels, missing values, ids, frequencies.

    They are read from DIR/stats.json and DIR/vocab; without these the arrays are counted.
    """
    from ingot.converters.recsys.criteo.inspect.folder import inspect
    from ingot.converters.recsys.criteo.inspect.page import figure_sections, render_inspect_page

    figures = inspect(folder, top)
    display.print_figures(
        figures,
        figure_sections,
        render_inspect_page,
        notes=figures.notes,
        html=html,
        as_json=as_json,
        apart=True,
    )


@command_options
def write_multihot(
    *,
    folder: o.Folder,
    config: Annotated[
        Path,
        Setting(
            "JSON or YAML file with num_embeddings, multi_hot_size, ... (docs/criteo.md).",
            metavar="FILE",
        ),
    ],
    out: o.OutPlace,
    tables: Annotated[
        Path | None,
        Setting(
            "Folder in which the tables are kept for the next time.",
            metavar="DIR",
            default="beside OUT, deleted at the end",
        ),
    ] = None,
    threads: Annotated[
        int,
        Setting(
            "Number of features processed at the same time; 0 = as many as cores.",
            metavar="N",
            minimum=0,
        ),
    ] = 0,
    overwrite: Overwrite = False,
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Write day_0_sparse_multi_hot.npz, ... of preprocessed data, with several ids for each id.

    Ids are taken modulo num_embeddings. Dense values and labels are linked into the new folder.
    """
    from ingot.converters.recsys.criteo.multihot.job import load_config, materialize

    parameters = load_config(config)
    with run_job(watching, "criteo multihot", as_json=as_json) as progress:
        done = materialize(
            folder,
            parameters,
            out,
            tables=tables,
            threads=threads,
            overwrite=overwrite,
            progress=progress,
        )
    parts, sizes = done.manifest["parts"], done.manifest["parameters"]["sizes"]
    widened = sum(size > 1 for size in sizes)
    lines = [
        ("rows", f"{sum(one['rows'] for one in parts):,} in {len(parts)} parts"),
        ("ids", f"{sum(sizes)} per row; {widened} of {len(sizes)} features widened"),
    ]
    display.print_result(done, lines, as_json=as_json, manifest=done.manifest)
