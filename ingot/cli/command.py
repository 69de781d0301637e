"""Commands made of functions: settings become options, help has headings, errors are one line."""

import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from ingot.cli.console import (
    error_parts,
    marked_names,
    note_line,
    print_error,
    replace_names,
    use_flags,
)
from ingot.converters.errors import ConversionError, ExitCode, IngotError, OutputError, PartDone
from ingot.converters.settings import (
    DeclaredSetting,
    Setting,
    find_setting,
    is_settings_class,
    list_settings,
    split_names,
)

if TYPE_CHECKING:
    from ingot.cli.console import JobOptions
    from ingot.converters.progress import Watch

HELP = {"help_option_names": ["-h", "--help"]}
# The class of every usage error: typer has it from click, or brings its own.
_UsageError: Any = typer.BadParameter.__mro__[1]


class SettingError(typer.BadParameter):
    """A usage error about a setting: the message adds where that was configured."""

    def __init__(self, problem: str, setting: str) -> None:
        super().__init__(problem)
        self.setting = setting


class Later(NamedTuple):
    """A command not imported yet: `module:function` below `ingot.cli`, and its help line.

    `ask` returns by parameter what asks a person for a value that is neither typed nor configured.
    """

    place: str
    help: str
    ask: Callable[[], Mapping[str, Any]] = dict

    def load(self, name: str) -> Any:  # noqa: ANN401
        """Import the command."""
        module, _, function = self.place.partition(":")
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        command = getattr(import_module(f"ingot.cli.{module}"), function)
        alone.command(name, cls=Command, short_help=self.help, context_settings=HELP)(command)
        loaded: Any = typer.main.get_command(alone)
        loaded.ask = self.ask
        return loaded


class Commands(TyperGroup):
    """A group of commands, each of which is imported when it is named."""

    later: ClassVar[Mapping[str, Later | typer.Typer]] = {}

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)
        self._loaded: dict[str, Any] = {}
        for name, entry in self.later.items():  # what the list of commands shows
            line = entry.help if isinstance(entry, Later) else entry.info.help
            self.commands[name] = TyperCommand(name, short_help=line)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return a command, or None."""
        entry = self.later.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in self._loaded:
            self._loaded[cmd_name] = (
                entry.load(cmd_name) if isinstance(entry, Later) else typer.main.get_group(entry)
            )
        return self._loaded[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the names with their help lines; nothing is imported for it."""
        room = formatter.width - 6 - max(map(len, self.commands))
        rows = [(name, command.get_short_help_str(room)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def make_context(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Parse the command line up to the subcommand."""
        with _usage_errors():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the subcommand."""
        with _usage_errors():
            return super().invoke(ctx)


class Command(TyperCommand):
    """A command; in its errors, settings that are named in backticks are shown as flags."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **named)
        self.origins: dict[str, str] = {}  # of configured values, by parameter
        self.ask: Callable[[], Mapping[str, Any]] = dict
        for param in self.params:  # `configured_values` reads the variables, this one's among them
            param.value_from_envvar = lambda ctx: None  # type: ignore[method-assign]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Parse the command line; what does not stand there is configured, or a default."""
        with _usage_errors():
            if not {"-h", "--help"} & set(args):  # help needs no configuration, nor a right one
                from ingot.cli.configuration import configured_values, unread_settings

                words = [*(parent.command_path.split()[1:] if parent else ()), info_name or ""]
                root = parent.find_root() if parent else None
                chosen = [root.params.get(name) if root else None for name in ("config", "profile")]
                for note in unread_settings(" ".join(words), chosen[0]):
                    note_line(note)
                values = configured_values(self, " ".join(words), root and root.command, *chosen)
                self.origins = {name: value.origin for name, value in values.items()}
                texts = {name: value.text for name, value in values.items()}
                named["default_map"] = {**self.ask(), **texts}
            return super().make_context(info_name, args, parent, **named)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command; an internal error still shows its traceback."""
        try:
            flags = {param.name: param.opts[0] for param in self.params if param.opts[0][0] == "-"}
            params = ctx.params  # lines of JSON on stderr are not mixed with others
            as_json = params.get("log_format") == "json" and not params.get("log_file")
            use_flags(flags, json_errors=as_json)
            with _usage_errors(ctx):
                return super().invoke(ctx)
        except IngotError as error:
            print_error(*error_parts(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            from ingot.converters.progress import TerminatedError

            if isinstance(error, TerminatedError):
                print_error("terminated: what is finished is kept; run the same command again")
                raise typer.Exit(ExitCode.TERMINATED) from error
            print_error("interrupted: nothing was replaced; run the same command again")
            raise typer.Exit(ExitCode.INTERRUPTED) from error

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write arguments, then options under their headings, those without one first."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                default_heading = "Arguments" if param.param_type_name == "argument" else "Options"
                heading = getattr(param, "rich_help_panel", None) or default_heading
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
def _usage_errors(running: Any = None) -> Iterator[None]:  # noqa: ANN401
    """Print a usage error as one line like any other error; help for an empty line stays help."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        param = getattr(error, "param", None)
        is_bare = isinstance(error, typer.BadParameter) and not (param or error.param_hint)
        problem = " ".join((error.message if is_bare else error.format_message()).split())
        problem = problem.replace("': Value error, ", "': ", 1)  # pydantic's word, in newer typer
        context = getattr(error, "ctx", None) or running
        path = context.command_path if context else "ingot"
        setting = getattr(error, "setting", "") or getattr(param, "name", "")
        origin = _origin_of_value(context, setting) if context else ""
        print_error(f"{problem.rstrip('.')}{origin} (usage: {path} --help)")
        raise typer.Exit(ExitCode.USAGE) from error


def _origin_of_value(context: Any, setting: str) -> str:  # noqa: ANN401
    """Return where the value of a setting was configured, in words; "" if it was not."""
    origin = getattr(context.command, "origins", {}).get(setting)
    source = context.get_parameter_source(setting)
    return f", set in {origin}" if origin and getattr(source, "name", "") == "DEFAULT_MAP" else ""


Function = Callable[..., None]


class Only:
    """The settings of a class that a command has, in one text, and values that it sets."""

    def __init__(self, names: str = "", **fixed: Any) -> None:  # noqa: ANN401
        self.names = names.split()  # none: all
        self.fixed = fixed


@dataclass(frozen=True)
class _Group:
    settings_class: type
    declared: tuple[DeclaredSetting, ...]
    fixed: Mapping[str, Any]

    def build(self, values: Mapping[str, Any]) -> object:
        """Return the instance; what its class refuses is a usage error."""
        chosen = {setting.name: values[setting.name] for setting in self.declared}
        try:
            return self.settings_class(**chosen, **self.fixed)
        except (ConversionError, ValueError) as error:
            flags = setting_flags(self.declared)
            first = next((name for name in marked_names(str(error)) if name in flags), "")
            raise SettingError(replace_names(str(error), flags), first) from error


def command_options(command: Function) -> Function:
    """Return the function as typer wants it.

    A parameter annotated with a `Setting` becomes an option or argument. One whose type is a
    settings class becomes an option for each setting, or for those that `Only` names in its
    annotation, and the function is called with an instance of that class.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, _Group] = {}
    declared: list[DeclaredSetting] = []
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint, setting = hints[parameter.name], find_setting(hints[parameter.name])
        if group := _find_group(hint):
            groups[parameter.name] = group
            declared += group.declared
        elif setting is not None:
            default = MISSING if parameter.default is parameter.empty else parameter.default
            declared.append(DeclaredSetting(parameter.name, get_args(hint)[0], default, setting))
        else:
            parameters.append(parameter.replace(annotation=hint))
    grouped = {setting.name for group in groups.values() for setting in group.declared}
    flags = setting_flags(declared)
    shown = [*parameters, *(_typer_parameter(setting, flags) for setting in declared)]

    @functools.wraps(command)
    def call(**arguments: Any) -> None:  # noqa: ANN401
        values = {entry.name: _read_value(entry, arguments.pop(entry.name)) for entry in declared}
        arguments |= {name: value for name, value in values.items() if name not in grouped}
        arguments |= {name: group.build(values) for name, group in groups.items()}
        command(**arguments)

    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in shown]
    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return call


def setting_flags(declared: Iterable[DeclaredSetting]) -> dict[str, str]:
    """Return the flag of every setting that has one, by the setting's name."""
    options = (entry for entry in declared if not entry.setting.positional)
    return {entry.name: _flags(entry)[0].partition("/")[0] for entry in options}


def _flags(declared: DeclaredSetting) -> list[str]:
    """Return the flags as typer takes them: `--strip/--no-strip`, `-o`."""
    setting = declared.setting
    flag = f"--{setting.flag or declared.name.replace('_', '-')}"
    flag = f"{flag}/--{setting.negative}" if setting.negative else flag
    other_flags = {"--": setting.also, "-": setting.short}
    return [flag, *(f"{dashes}{name}" for dashes, name in other_flags.items() if name)]


def _find_group(hint: object) -> _Group | None:
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not is_settings_class(kind):
        return None
    only = next((note for note in notes if isinstance(note, Only)), None)
    declared = {setting.name: setting for setting in list_settings(kind)}
    names = only.names if only and only.names else declared
    return _Group(kind, tuple(declared[name] for name in names), only.fixed if only else {})


def _typer_parameter(declared: DeclaredSetting, flags: Mapping[str, str]) -> inspect.Parameter:
    setting = declared.setting
    kind, is_text = _typer_type(declared)
    default = declared.default
    in_words: str | bool = setting.default or default not in (None, MISSING, ())
    if is_text:
        in_words = setting.default or (str(default) if in_words else False)
        if default is not MISSING:
            default, kind = None, kind | None
    common: dict[str, Any] = {
        "help": replace_names(setting.help, flags),
        "metavar": setting.metavar,
        "hidden": setting.hidden,
        "show_default": in_words,
        "min": None if is_text else setting.minimum,
        "max": None if is_text else setting.maximum,
    }
    info = (
        typer.Argument(**common)
        if setting.positional
        else typer.Option(
            *_flags(declared), envvar=setting.environment, rich_help_panel=setting.section, **common
        )
    )
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, info],
    )


def _typer_type(declared: DeclaredSetting) -> tuple[Any, bool]:
    """Return the type for typer, and whether it is text that becomes the value later."""
    setting = declared.setting
    if setting.repeatable:
        return list[str], True
    if setting.parse is not None or _is_tuple(declared.type):
        return str, True
    return (Literal[setting.choices] if setting.choices else declared.type), False


def _is_tuple(kind: object) -> bool:
    """Whether this is `tuple[...]` or `tuple[...] | None`."""
    kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    return any(get_origin(part) is tuple for part in kinds if part is not NoneType)


def _read_value(declared: DeclaredSetting, value: Any) -> Any:  # noqa: ANN401
    """Return the value of what stands on the command line; where nothing does, the default."""
    setting = declared.setting
    if value is None or (setting.repeatable and not value):
        return None if declared.default is MISSING else declared.default
    parse = setting.parse or (split_names if _is_tuple(declared.type) else None)
    try:
        if setting.repeatable:
            return tuple(map(setting.parse, value)) if setting.parse else tuple(value)
        return parse(value) if parse else value
    except (ConversionError, ValueError) as error:
        name = setting.metavar if setting.positional else _flags(declared)[0]
        raise SettingError(f"{name}: {error}", declared.name) from error


@contextmanager
def show_parts(*, as_json: bool = False) -> Iterator[None]:
    """End the command where a part of a job has done what it can; say so, and what comes next."""
    from ingot.cli.console import print_json

    try:
        yield
    except PartDone as part:
        done = f"{part.pieces:,} of {part.whole:,} pieces"
        if as_json:
            document = {"out": part.out, "shard": part.shard, "pieces": part.pieces}
            print_json(
                document | {"of": part.whole} | ({"waits": part.phase} if part.phase else {})
            )
        elif part.phase:
            waiting = f"of phase {part.phase}; others have not"
            note_line(f"part {part.shard} has done its {done} {waiting}")
            note_line("when all parts have ended, run all of them again for the next phase")
        else:
            note_line(f"part {part.shard} is done: {done} of the job")
            note_line(f"when all parts are: ingot merge {shlex.quote(part.out)}")
        raise typer.Exit(ExitCode.PART_DONE) from part


@contextmanager
def run_job(watching: "JobOptions", name: str, *, as_json: bool) -> Iterator["Watch"]:
    """Watch a job that may run in parts; yield what its progress is told."""
    from ingot.cli.console import progress_meter

    with show_parts(as_json=as_json), watching.open(name), progress_meter() as progress:
        yield progress


def check_free(file: Path | None, *, overwrite: bool) -> None:
    """Refuse to replace a file."""
    if file is not None and file.exists() and not overwrite:
        raise OutputError(str(file), "exists already", "choose another name, or use `overwrite`")


Folder: TypeAlias = Annotated[Path, Setting("Folder of the data.", metavar="DIR", positional=True)]
Json: TypeAlias = Annotated[bool, Setting("Print the result as JSON on stdout.", flag="json")]
OutPlace: TypeAlias = Annotated[
    str,
    Setting(
        "Folder to create, here or in an object store (s3://BUCKET/DIR).", metavar="DIR", flag="out"
    ),
]
OutFile: TypeAlias = Annotated[
    Path | None,
    Setting("File to write.", metavar="FILE", flag="output", short="o", default="stdout"),
]
MappingFile: TypeAlias = Annotated[
    Path, Setting("Mapping file.", metavar="MAPPING", positional=True)
]
HtmlFile: TypeAlias = Annotated[
    Path | None, Setting("Also write a page with plots to this file.", metavar="FILE", flag="html")
]
