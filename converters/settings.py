"""How a setting is declared: once, as an annotated field of a frozen dataclass."""

import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from ingot.converters.errors import SourceError

Level = Literal["trace", "debug", "info", "warn", "error"]  # of a log line


@dataclass(frozen=True)
class Setting:
    """What a person reads about a field and how they write it: `Annotated[int, Setting("...")]`.

    A field without a `Setting` can be set in Python only.
    """

    help: str  # one sentence: what the setting does, its unit, and what None means
    metavar: str | None = None  # a name for the value, such as `N`, `FILE` or `COL[,COL...]`
    section: str | None = None  # the heading under which it is listed
    flag: str | None = None  # its name on a command line where that is not the field's
    also: str | None = None  # another name there
    short: str | None = None  # a name of one letter there
    negative: str = ""  # the name there that turns a boolean off, such as `no-strip`
    positional: bool = False  # it is written by its place, without a flag
    repeatable: bool = False  # the items of a tuple are written one by one, not with commas
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()  # what a person may write where the type does not list it
    environment: str | None = None  # the variable that sets it where nothing else does
    default: str | None = None  # in words, where the value does not say it
    hidden: bool = False  # leave it out of the help
    parse: Callable[[str], Any] | None = None  # raises ValueError or an ingot error


@dataclass(frozen=True)
class DeclaredSetting:
    """A field that has a `Setting`; `default` is `dataclasses.MISSING` where it must be given."""

    name: str
    type: Any
    default: Any
    setting: Setting


def list_settings(settings_class: type) -> tuple[DeclaredSetting, ...]:
    """Return the declared settings of a dataclass in the order of its fields."""
    declared = []
    for field in fields(settings_class):
        setting = find_setting(field.type)
        if setting is not None:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            declared.append(DeclaredSetting(field.name, get_args(field.type)[0], default, setting))
    return tuple(declared)


def find_setting(hint: object) -> Setting | None:
    """Return the `Setting` of a type hint such as `Annotated[int, Setting("...")]`."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, Setting)), None)


def is_settings_class(kind: object) -> bool:
    """Return whether this is a dataclass that declares a setting."""
    is_dataclass = isinstance(kind, type) and hasattr(kind, "__dataclass_fields__")
    return is_dataclass and any(find_setting(field.type) for field in fields(kind))  # type: ignore[arg-type]


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


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError("there is an empty name between the commas")
    return names


def existing_folder(text: str) -> Path:
    """Return the path of a folder that exists."""
    if not Path(text).is_dir():
        raise ValueError(f"{text} {'is a file' if Path(text).exists() else 'does not exist'}")
    return Path(text)


def existing_tokenizer(text: str) -> str:
    """Return the path of a tokenizer that exists, or `hf://REPO`."""
    if text.startswith("hf://") or Path(text).exists():
        return text
    raise ValueError(f"{text}: no such file or folder")


def storage_retries() -> int:
    """Return how often a request to a storage is repeated after a failure that may pass."""
    return int(_number_setting("INGOT_STORAGE_RETRIES", 5, 0))


def silence_timeout() -> float:
    """Return seconds without a byte after which a storage counts as gone. Raises SourceError."""
    return _number_setting("INGOT_STORAGE_TIMEOUT", 30.0, 1.0)


def _number_setting(name: str, usual: float, least: float) -> float:
    text = os.environ.get(name)
    if not text:
        return usual
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not least <= value <= 86_400:
        raise SourceError(
            name, f"{text[:40]!r} is not a number from {least:g} to 86400", "correct it"
        )
    return value
