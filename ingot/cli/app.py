"""The `ingot` command: its subcommands, and how its errors end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ingot import __version__
from ingot.cli.commands.chat import chat
from ingot.cli.commands.check import check
from ingot.cli.commands.doctor import doctor
from ingot.cli.commands.export import export
from ingot.cli.commands.map import map_data
from ingot.cli.commands.review import review
from ingot.cli.commands.run import convert, run
from ingot.cli.commands.warm import warm
from ingot.cli.console import print_error
from ingot.cli.lake import lake
from ingot.cli.options import SectionedCommand
from ingot.cli.recsys import criteo, ctr, monolith
from ingot.cli.tokens import tokens
from ingot.cli.tokens.build import build_tokens
from ingot.converters.errors import IngotError

_INTERRUPTED = 130
_USAGE = 2
# The class of every usage error: typer has it from click, or brings its own.
_UsageError: Any = typer.BadParameter.__mro__[1]


class _ErrorReporting:
    """Turns usage errors and those that ingot raises on purpose into a message and an exit code."""

    def make_context(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        """Parse the command line, of a group up to the subcommand."""
        with _usage_errors():
            return super().make_context(*given, **named)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command; a mistake in ingot itself still shows its traceback."""
        try:
            with _usage_errors():
                return super().invoke(ctx)  # type: ignore[misc]
        except IngotError as error:
            print_error(*_error_parts(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            print_error("interrupted: nothing was replaced; run the same command again")
            raise typer.Exit(_INTERRUPTED) from error


class Commands(_ErrorReporting, TyperGroup):
    """The subcommands of `ingot`."""


class StandaloneCommand(_ErrorReporting, SectionedCommand):
    """A command of its own."""


@contextmanager
def _usage_errors() -> Iterator[None]:
    """A usage error as one line like any other error; help for an empty line stays help."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        said = " ".join(error.format_message().split()).removeprefix("Invalid value: ")
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "ingot"
        print_error(f"{said.rstrip('.')} (usage: {path} --help)")
        raise typer.Exit(_USAGE) from error


def _error_parts(error: IngotError) -> tuple[str, list[str]]:
    """The error, and below it what can be done where that takes several lines."""
    hint = getattr(error, "hint", "")
    if "\n" not in hint:
        return str(error), []
    return str(type(error)(error.args[0], error.args[1])), hint.split("\n")


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
    """Turn raw data sets into what training reads: one reviewed mapping, exact conversion."""


app.command("run")(run)
app.command("map")(map_data)
app.command("check")(check)
app.command("chat")(chat)
app.command("convert")(convert)
app.command("doctor")(doctor)
app.command("export")(export)
app.command("review")(review)
app.command("warm")(warm)
app.add_typer(ctr, name="ctr")
app.add_typer(criteo, name="criteo")
app.add_typer(lake, name="lake")
app.add_typer(monolith, name="monolith")
app.add_typer(tokens, name="tokens")

parquet2mbt = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
parquet2mbt.command(cls=StandaloneCommand)(build_tokens)
