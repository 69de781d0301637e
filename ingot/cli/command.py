"""Commands whose help has headings, and whose errors are one message and an exit code."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from ingot.cli.console import print_error, use_flags
from ingot.converters.errors import IngotError

HELP = {"help_option_names": ["-h", "--help"]}
INTERRUPTED = 130
_USAGE = 2
# The class of every usage error: typer has it from click, or brings its own.
_UsageError: Any = typer.BadParameter.__mro__[1]


class Later(NamedTuple):
    """A command not imported yet: `module:function` below `ingot.cli`, and its help line."""

    place: str
    help: str

    def load(self, name: str) -> Any:  # noqa: ANN401
        """Import the command."""
        module, _, function = self.place.partition(":")
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        command = getattr(import_module(f"ingot.cli.{module}"), function)
        alone.command(name, cls=Command, short_help=self.help, context_settings=HELP)(command)
        return typer.main.get_command(alone)


class Commands(TyperGroup):
    """A group of commands, each of which is imported when it is named."""

    later: ClassVar[Mapping[str, Later | typer.Typer]] = {}

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)
        self._loaded: dict[str, Any] = {}
        for name, what in self.later.items():  # what the list of commands shows
            line = what.help if isinstance(what, Later) else what.info.help
            self.commands[name] = TyperCommand(name, short_help=line)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return a command, or None."""
        what = self.later.get(cmd_name)
        if what is None:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in self._loaded:
            self._loaded[cmd_name] = (
                what.load(cmd_name) if isinstance(what, Later) else typer.main.get_group(what)
            )
        return self._loaded[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the names with their help lines; nothing is imported for it."""
        room = formatter.width - 6 - max(map(len, self.commands))
        rows = [(name, one.get_short_help_str(room)) for name, one in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

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


def command_group(
    help_text: str,
    later: Mapping[str, Later | typer.Typer],
    **settings: Any,  # noqa: ANN401
) -> typer.Typer:
    """Return a group of these commands."""
    return typer.Typer(
        cls=type("Commands", (Commands,), {"later": later}),
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
