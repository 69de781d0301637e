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
ctr.command("build", cls=Sections)(build)
ctr.command("draft")(draft)
ctr.command("validate")(validate)
ctr.command("stats")(stats)
