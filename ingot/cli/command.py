"""Commands whose help has headings, and whose errors are one message and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ingot.cli.console import print_error, use_flags
from ingot.converters.errors import IngotError

INTERRUPTED = 130
_USAGE = 2
# The class of every usage error: typer has it from click, or brings its own.
_UsageError: Any = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """A group of commands."""

    def make_context(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        """Parse the command line up to the subcommand."""
        with _usage_errors():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the subcommand."""
        with _usage_errors():
            return super().invoke(ctx)


class Command(TyperCommand):
    """A command; in its errors, settings that are named in backticks are shown as flags."""

    def make_context(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        """Parse the command line."""
        with _usage_errors():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command; a mistake in ingot itself still shows its traceback."""
        try:
            use_flags({one.name: one.opts[0] for one in self.params if one.opts[0][0] == "-"})
            with _usage_errors():
                return super().invoke(ctx)
        except IngotError as error:
            print_error(*_error_parts(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            print_error("interrupted: nothing was replaced; run the same command again")
            raise typer.Exit(INTERRUPTED) from error

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write arguments, then options under their headings, those without one first."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                heading = getattr(param, "rich_help_panel", None) or plain
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def command_group(help_text: str, **settings: Any) -> typer.Typer:  # noqa: ANN401
    """Return an empty group of commands."""
    return typer.Typer(
        cls=Commands,
        help=help_text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # an error is one line that can be searched for, not a box
        **settings,
    )


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Print a usage error as one line like any other error; help for an empty line stays help."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        problem = " ".join(error.format_message().split()).removeprefix("Invalid value: ")
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "ingot"
        print_error(f"{problem.rstrip('.')} (usage: {path} --help)")
        raise typer.Exit(_USAGE) from error


def _error_parts(error: IngotError) -> tuple[str, list[str]]:
    """Return the error, and below it what can be done where that takes several lines."""
    hint = getattr(error, "hint", "")
    if "\n" not in hint:
        return str(error), []
    return str(type(error)(error.args[0], error.args[1])), hint.split("\n")
