"""The `ingot` command: its subcommands, and how its errors end."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ingot import __version__
from ingot.cli.check import check
from ingot.cli.console import complain
from ingot.cli.convert import convert
from ingot.cli.map import map_command
from ingot.cli.run import run
from ingot.converters.errors import IngotError

_INTERRUPTED = 130


class Commands(TyperGroup):
    """Turns the errors that ingot raises on purpose into one message and their exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run a subcommand; a mistake in ingot itself still shows its traceback."""
        try:
            return super().invoke(ctx)
        except IngotError as error:
            complain(str(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            complain("interrupted: nothing was replaced; the same command takes the work up again")
            raise typer.Exit(_INTERRUPTED) from error


app = typer.Typer(
    name="ingot",
    cls=Commands,
    help="Turn raw data sets into what training reads: one reviewed mapping, exact conversion.",
    epilog="Exit codes: 0 done or nothing to convert, 1 a gate failed or data cannot be read or "
    "written, 2 usage or an invalid mapping file, 3 a person is needed, 4 endpoint unreachable.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # an error is one line that can be searched for, not a box
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ingot {__version__}")
        raise typer.Exit


@app.callback()
def ingot(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turn raw data sets into what training reads: one reviewed mapping, exact conversion."""


app.command("run")(run)
app.command("map")(map_command)
app.command("check")(check)
app.command("convert")(convert)
