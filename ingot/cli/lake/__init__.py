"""`ingot lake`: batch runs over a lake of data sets."""

import typer

from ingot.cli.lake.review import review_lake
from ingot.cli.lake.run import run

lake = typer.Typer(
    help="Convert a whole lake of data sets, review what waits, look at the catalog.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
lake.command("run")(run)
lake.command("review")(review_lake)
