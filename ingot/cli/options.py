"""Commands made of functions: a parameter that is a setting becomes an option or an argument.

A setting is declared once, with its help, by a `Setting` of a settings class or of the function.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import typer

from ingot.cli.console import replace_names
from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.settings import (
    DeclaredSetting,
    Setting,
    find_setting,
    is_settings_class,
    list_settings,
    split_names,
)

Command = Callable[..., None]


class Only:
    """The settings of a class that a command has (none named = all), and values that it sets."""

    def __init__(self, *names: str, **fixed: Any) -> None:  # noqa: ANN401
        self.names = names
        self.fixed = fixed


@dataclass(frozen=True)
class _Group:
    settings_class: type
    declared: tuple[DeclaredSetting, ...]
    fixed: Mapping[str, Any]

    def build(self, values: Mapping[str, Any]) -> object:
        """Return the instance; what its class refuses is a usage error."""
        chosen = {one.name: values[one.name] for one in self.declared}
        try:
            return self.settings_class(**chosen, **self.fixed)
        except (ConversionError, ValueError) as error:
            flags = setting_flags(self.declared)
            raise typer.BadParameter(replace_names(str(error), flags)) from error


def command_options(command: Command) -> Command:
    """Return the function as typer wants it.

    A parameter annotated with a `Setting` becomes an option or argument. One whose type is a
    settings class becomes an option for each setting, or for those that `Only` names in its
    annotation, and the function is called with an instance of that class.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, _Group] = {}
    declared: list[DeclaredSetting] = []
    others: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint, setting = hints[parameter.name], find_setting(hints[parameter.name])
        if group := _find_group(hint):
            groups[parameter.name] = group
            declared += group.declared
        elif setting is not None:
            default = MISSING if parameter.default is parameter.empty else parameter.default
            declared.append(DeclaredSetting(parameter.name, get_args(hint)[0], default, setting))
        else:
            others.append(parameter.replace(annotation=hint))
    grouped = {one.name for group in groups.values() for one in group.declared}
    flags = setting_flags(declared)
    shown = [*others, *(_typer_parameter(one, flags) for one in declared)]

    @functools.wraps(command)
    def call(**given: Any) -> None:  # noqa: ANN401
        values = {one.name: _read_value(one, given.pop(one.name)) for one in declared}
        given |= {name: value for name, value in values.items() if name not in grouped}
        given |= {name: group.build(values) for name, group in groups.items()}
        command(**given)

    shown = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in shown]
    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in shown}
    return call


def setting_flags(declared: Iterable[DeclaredSetting]) -> dict[str, str]:
    """Return the flag of every setting that has one, by the setting's name."""
    return {
        one.name: _flags(one)[0].partition("/")[0] for one in declared if not one.setting.positional
    }


def _flags(declared: DeclaredSetting) -> list[str]:
    """Return the flags as typer takes them: `--strip/--no-strip`, `-o`."""
    setting = declared.setting
    flag = f"--{setting.flag or declared.name.replace('_', '-')}"
    flag = f"{flag}/--{setting.negative}" if setting.negative else flag
    return [flag, f"-{setting.short}"] if setting.short else [flag]


def _find_group(hint: object) -> _Group | None:
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not is_settings_class(kind):
        return None
    only = next((note for note in notes if isinstance(note, Only)), None)
    declared = {one.name: one for one in list_settings(kind)}
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
    shown: dict[str, Any] = {
        "help": replace_names(setting.help, flags),
        "metavar": setting.metavar,
        "hidden": setting.hidden,
        "show_default": in_words,
        "min": None if is_text else setting.minimum,
        "max": None if is_text else setting.maximum,
    }
    info = (
        typer.Argument(**shown)
        if setting.positional
        else typer.Option(
            *_flags(declared),
            envvar=setting.environment,
            rich_help_panel=setting.section,
            **shown,
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
    return any(get_origin(one) is tuple for one in kinds if one is not NoneType)


def _read_value(declared: DeclaredSetting, given: Any) -> Any:  # noqa: ANN401
    """Return the value of what stands on the command line; where nothing does, the default."""
    setting = declared.setting
    if given is None or (setting.repeatable and not given):
        return None if declared.default is MISSING else declared.default
    parse = setting.parse or (split_names if _is_tuple(declared.type) else None)
    try:
        if setting.repeatable:
            return tuple(map(setting.parse, given)) if setting.parse else tuple(given)
        return parse(given) if parse else given
    except (ConversionError, ValueError) as error:
        name = setting.metavar if setting.positional else _flags(declared)[0]
        raise typer.BadParameter(f"{name}: {error}") from error


def check_free(file: Path | None, *, overwrite: bool) -> None:
    """Refuse to replace a file."""
    if file is not None and file.exists() and not overwrite:
        raise OutputError(str(file), "exists already", "choose another name, or use `overwrite`")


Folder: TypeAlias = Annotated[Path, Setting("Folder of the data.", metavar="DIR", positional=True)]
Json: TypeAlias = Annotated[bool, Setting("Print the result as JSON on stdout.", flag="json")]
OutFolder: TypeAlias = Annotated[Path, Setting("Folder to create.", metavar="DIR", flag="out")]
OutFile: TypeAlias = Annotated[
    Path | None,
    Setting("File to write.", metavar="FILE", flag="output", short="o", default="stdout"),
]
MappingFile: TypeAlias = Annotated[
    Path, Setting("Mapping file.", metavar="MAPPING", positional=True)
]
HtmlFile: TypeAlias = Annotated[
    Path | None,
    Setting("Also write a page with plots to this file.", metavar="FILE", flag="html"),
]
