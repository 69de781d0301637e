"""`ingot tokens`: token data sets as Megatron reads them."""

import typer

from ingot.cli.options import SectionedCommand
from ingot.cli.tokens.build import build_tokens
from ingot.cli.tokens.tools import inspect, merge, verify

tokens = typer.Typer(
    help="Token data sets (.bin/.idx): build, inspect, merge, verify.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
tokens.command("build", cls=SectionedCommand)(build_tokens)
tokens.command("inspect")(inspect)
tokens.command("merge")(merge)
tokens.command("verify")(verify)
