"""How a setting is declared: once, as an annotated field of a frozen dataclass."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Setting:
    """What a person reads about a field and how they write it: `Annotated[int, Setting("...")]`.

    A field without a `Setting` can be set in Python only.

    Attributes:
        help: one sentence: what the setting does, its unit, and what None means.
        metavar: a name for the value, such as `N`, `FILE` or `COL[,COL...]`.
        section: the heading under which it is listed.
        flag: its name on a command line where that is not `--field-name`.
        short: a short flag such as `-n`.
        negative: the flag that turns a boolean off, such as `--no-strip`; "" = it has none.
        minimum: the least number that it takes.
        maximum: the greatest number that it takes.
        environment: the environment variable that sets it where nothing else does.
        default: the default in words, where the value does not say it.
        hidden: leave it out of the help.
        parse: the value of what a person writes; it raises ValueError with what is wrong.
    """

    help: str
    metavar: str | None = None
    section: str | None = None
    flag: str | None = None
    short: str | None = None
    negative: str = ""
    minimum: float | None = None
    maximum: float | None = None
    environment: str | None = None
    default: str | None = None
    hidden: bool = False
    parse: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class DeclaredSetting:
    """A field of a settings class that has a `Setting`; `default` may be `dataclasses.MISSING`."""

    name: str
    type: Any
    default: Any
    setting: Setting


@cache
def list_settings(settings_class: type) -> tuple[DeclaredSetting, ...]:
    """Return the declared settings of a dataclass in the order of its fields."""
    hints = get_type_hints(settings_class, include_extras=True)
    declared = []
    for field in fields(settings_class):
        if get_origin(hints[field.name]) is Annotated:
            value_type, *notes = get_args(hints[field.name])
            setting = next((note for note in notes if isinstance(note, Setting)), None)
            factory = field.default_factory
            default = field.default if factory is MISSING else factory()
            if setting is not None:
                declared.append(DeclaredSetting(field.name, value_type, default, setting))
    return tuple(declared)


def is_settings_class(kind: object) -> bool:
    """Whether this is a dataclass that declares a setting."""
    return (
        isinstance(kind, type)
        and hasattr(kind, "__dataclass_fields__")
        and bool(list_settings(kind))
    )


def limit_problems(settings: object) -> list[str]:
    """Return a sentence for every number that is below its minimum or above its maximum."""
    problems = []
    for declared in list_settings(type(settings)):
        value, setting = getattr(settings, declared.name), declared.setting
        if isinstance(value, int | float):
            if setting.minimum is not None and value < setting.minimum:
                problems.append(f"`{declared.name}` takes {setting.minimum} or more, not {value}")
            elif setting.maximum is not None and value > setting.maximum:
                problems.append(f"`{declared.name}` takes {setting.maximum} or less, not {value}")
    return problems
