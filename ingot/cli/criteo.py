"""`ingot criteo`: click logs for DLRM."""

import typer

from ingot.cli.criteo_inspect import inspect
from ingot.cli.criteo_multihot import multihot
from ingot.cli.criteo_preprocess import preprocess
from ingot.cli.sections import Sections

criteo = typer.Typer(
    help="Criteo click logs: raw days to the arrays that DLRM trains on.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
criteo.command("preprocess", cls=Sections, short_help="Raw days to arrays and vocabularies.")(
    preprocess
)
criteo.command("inspect", short_help="Show what is in them.")(inspect)
criteo.command("multihot", short_help="Make every id several, as archives.")(multihot)
