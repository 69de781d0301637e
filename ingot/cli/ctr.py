"""`ingot ctr`: recommendation data sets under the processed contract."""

import typer

from ingot.cli.ctr_build import build
from ingot.cli.ctr_draft import draft
from ingot.cli.ctr_stats import stats
from ingot.cli.ctr_validate import validate
from ingot.cli.sections import Sections

ctr = typer.Typer(
    help="CTR data sets: raw rows to processed Parquet, checked and shown.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
ctr.command("build", cls=Sections, short_help="Raw rows to train/ and valid/.")(build)
ctr.command("draft", short_help="Propose a featuremap for a table.")(draft)
ctr.command("validate", short_help="Check every rule of the contract.")(validate)
ctr.command("stats", short_help="Show what a build counted.")(stats)
