"""The `ingot` command and its subcommands."""

from typing import Annotated

import typer

from ingot import __version__
from ingot.cli.command import Command, command_group
from ingot.cli.commands.chat import chat
from ingot.cli.commands.check import check
from ingot.cli.commands.doctor import doctor
from ingot.cli.commands.export import export
from ingot.cli.commands.map import map_data
from ingot.cli.commands.review import review
from ingot.cli.commands.run import convert, run
from ingot.cli.commands.warm import warm
from ingot.cli.lake import lake
from ingot.cli.recsys import criteo, ctr, monolith
from ingot.cli.tokens import tokens
from ingot.cli.tokens.build import build_tokens

_HELP = {"help_option_names": ["-h", "--help"]}

app = command_group(
    "Convert raw data sets to training files: one reviewed mapping, exact conversion.",
    name="ingot",
    epilog="Exit codes: 0 done or nothing to convert, 1 a gate failed or data cannot be read or "
    "written, 2 usage or an invalid mapping file, 3 a person is needed, 4 endpoint unreachable.",
    context_settings=_HELP,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ingot {__version__}")
        raise typer.Exit


@app.callback()
def ingot(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Convert raw data sets to training files: one reviewed mapping, exact conversion."""


for name, command in {
    "run": run,
    "map": map_data,
    "check": check,
    "chat": chat,
    "convert": convert,
    "doctor": doctor,
    "export": export,
    "review": review,
    "warm": warm,
}.items():
    app.command(name, cls=Command)(command)
for name, group in {
    "ctr": ctr,
    "criteo": criteo,
    "lake": lake,
    "monolith": monolith,
    "tokens": tokens,
}.items():
    app.add_typer(group, name=name)

parquet2mbt = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings=_HELP,
)
parquet2mbt.command(cls=Command)(build_tokens)
