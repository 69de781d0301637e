"""`ingot tokens`: token data sets as Megatron reads them."""

import typer

from ingot.cli.sections import Sections
from ingot.cli.tokens_build import build
from ingot.cli.tokens_tools import inspect, merge, verify

tokens = typer.Typer(
    help="Token data sets (.bin/.idx): build, inspect, merge, verify.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
tokens.command("build", cls=Sections)(build)
tokens.command("inspect")(inspect)
tokens.command("merge")(merge)
tokens.command("verify")(verify)
