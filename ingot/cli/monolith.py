"""`ingot monolith`: Examples and ExampleBatches of Monolith."""

import typer

from ingot.cli.monolith_cat import cat
from ingot.cli.monolith_convert import convert
from ingot.cli.monolith_stats import stats
from ingot.cli.sections import Sections

monolith = typer.Typer(
    help="Monolith's Examples and ExampleBatches: converted, cast from tables, looked at.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
monolith.command(
    "convert", cls=Sections, short_help="Examples, ExampleBatches and tables into each other."
)(convert)
monolith.command("cat", short_help="Show rows.")(cat)
monolith.command("stats", short_help="Show what is in streams.")(stats)
