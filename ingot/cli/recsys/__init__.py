"""`ingot ctr`: recommendation data sets under the processed contract.

`ingot criteo`: click logs for DLRM.
`ingot monolith`: Examples and ExampleBatches of Monolith.
"""

import sys

import typer

from ingot.cli.options import SectionedCommand
from ingot.cli.recsys.criteo_logs import inspect_criteo, preprocess_criteo, write_multihot
from ingot.cli.recsys.ctr_build import build, draft
from ingot.cli.recsys.ctr_inspect import show_ctr_stats, validate_ctr
from ingot.cli.recsys.monolith_convert import convert_monolith
from ingot.cli.recsys.monolith_inspect import show_monolith_rows, show_monolith_stats


def announce_compiling() -> None:
    """Have the terminal say that kernels are compiled, where they are."""
    from ingot.converters.kernels import compile as kernels

    if sys.stderr.isatty():
        kernels.announce_compiling(lambda text: sys.stderr.write(f"{text}\n"))


ctr = typer.Typer(
    callback=announce_compiling,
    help="CTR data sets: raw rows to processed Parquet, checked and shown.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
ctr.command("build", cls=SectionedCommand, short_help="Raw rows to train/ and valid/.")(build)
ctr.command("draft", short_help="Propose a featuremap for a table.")(draft)
ctr.command("validate", short_help="Check every rule of the contract.")(validate_ctr)
ctr.command("stats", short_help="Show what a build counted.")(show_ctr_stats)


criteo = typer.Typer(
    callback=announce_compiling,
    help="Criteo click logs: raw days to the arrays that DLRM trains on.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
criteo.command(
    "preprocess", cls=SectionedCommand, short_help="Raw days to arrays and vocabularies."
)(preprocess_criteo)
criteo.command("inspect", short_help="Show what is in them.")(inspect_criteo)
criteo.command("multihot", short_help="Make every id several, as archives.")(write_multihot)


monolith = typer.Typer(
    callback=announce_compiling,
    help="Monolith's Examples and ExampleBatches: converted, cast from tables, looked at.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
monolith.command(
    "convert",
    cls=SectionedCommand,
    short_help="Examples, ExampleBatches and tables into each other.",
)(convert_monolith)
monolith.command("cat", short_help="Show rows.")(show_monolith_rows)
monolith.command("stats", short_help="Show what is in streams.")(show_monolith_stats)
