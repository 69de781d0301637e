"""An order as a server gets it: an object, or a line of words such as a person types.

The line is what `ingot run` takes, without its first words: `SOURCE --out DIR --mode sft`. Options
are known by their names only; nothing is executed.
"""

import re
import shlex
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Literal, get_args, get_origin

from ingot.agent.state import Order
from ingot.agent.steps.order_schema import (
    CONTROL,
    DECLARED,
    FLAG,
    TYPED_OPTIONS,
    check_order,
    schema_faults,
)
from ingot.converters.errors import ConversionError
from ingot.converters.output.files import is_store_url
from ingot.converters.rows import Json
from ingot.converters.settings import DeclaredSetting


def _option_hint(declared: DeclaredSetting) -> tuple[str, str]:
    """What stands after an option, and what it does."""
    setting = declared.setting
    choices = setting.choices or (
        get_args(declared.type) if get_origin(declared.type) is Literal else ()
    )
    if declared.type is bool:
        return "", setting.help
    return setting.metavar or " or ".join(choices), setting.help


_OPTION_HINTS = {
    "out": ("DIR", "Folder to be written; without it nothing is."),
    **{name: _option_hint(one) for name, one in DECLARED.items()},
}
_HELP_WORDS = ("help", "--help", "-h", "?")


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


USAGE = "Type `SOURCE --out DIR`: what to read, and the folder to be written; or `help`."
HELP = "\n".join(
    [
        "Type `SOURCE --out DIR`: what to read, and the folder to be written. Words with blanks "
        "stand in quotes, `~` is not expanded.",
        "",
        "| option | value | what it does |",
        "| --- | --- | --- |",
        *(
            f"| `{_option_name(name)}` | {value} | {does} |"
            for name, (value, does) in _OPTION_HINTS.items()
        ),
    ]
)


def wants_help(words: str) -> bool:
    """Whether a person asks what may be typed."""
    return words.strip().casefold() in _HELP_WORDS


def parse_typed_order(words: str) -> Order:
    """The order that a person typed."""
    try:
        parts = shlex.split(words)
    except ValueError as error:
        raise ConversionError("", f"the line cannot be read: {error}") from error
    options: dict[str, Json] = {}
    sources: list[str] = []
    rest = iter(parts)
    for part in rest:
        if part.startswith("--"):
            options |= _split_option(part, rest)
        else:
            sources.append(part)
    if len(sources) != 1:
        found = ", ".join(map(repr, sources)) or "none"
        raise ConversionError("", f"one source is needed, found {found}")
    return check_order({"source": sources[0], **options})


def _split_option(part: str, rest: Iterator[str]) -> dict[str, Json]:
    """One option with its value, which is the next word where no `=` names it."""
    written, named, value = part.partition("=")
    name = written.removeprefix("--").replace("-", "_")
    schema = TYPED_OPTIONS.get(name)
    if schema is None:
        raise ConversionError("", f"there is no option {written}", "help names all of them")
    metavar, does = _OPTION_HINTS[name]
    hint = f"{_option_name(name)} {metavar}".strip() + f": {does}"
    if schema is FLAG and not named:
        return {name: True}
    if not named:
        value = next(rest, "")
    if schema is FLAG:
        raise ConversionError("", f"{written} takes no value", hint)
    if not value or (not named and value.startswith("--")):
        found = f", found the option {value}" if value else ""
        raise ConversionError("", f"{written} takes a value{found}", hint)
    read = _schema_value(TYPED_OPTIONS[name], value)
    faults = schema_faults(TYPED_OPTIONS[name], read)
    if faults:
        raise ConversionError(name, "; ".join(faults), hint)
    return {name: read}


def _schema_value(schema: dict[str, Json], value: str) -> Json:
    """The word as a number where one is wanted; what is none is left for the schema to refuse."""
    wanted = schema.get("type", "string")
    if "integer" in wanted and value.isascii() and value.isdigit():
        return int(value)
    if "number" in wanted:
        try:
            number = float(value)
        except ValueError:
            return value
        return number if isfinite(number) else value
    return value


# --- where a served run may read and write


def refuse_unexpanded(order: Order) -> None:
    """Refuse places that a shell would have read otherwise: no shell has seen a served order."""
    for name, place in (
        ("source", order.source),
        ("out", order.out),
        ("tokenizer", order.tokenizer),
    ):
        if place and place.removeprefix("file://").startswith("~"):
            raise ConversionError(name, "~ is not expanded here", "write the whole path")


def check_confined(order: Order, root: Path) -> None:
    """Refuse an order that reads or writes outside of a folder, links followed."""
    if "://" in order.source.removeprefix("file://"):
        raise ConversionError(order.source, "only files of this machine may be read here")
    # The readers expand it, what writes does not: looked at is what is used.
    check_inside(str(Path(order.source.removeprefix("file://")).expanduser()), root)
    if is_store_url(order.out or ""):
        raise ConversionError(order.out or "", "only files of this machine may be written here")
    for place in (order.out, order.tokenizer):
        if place is not None:
            check_inside(place, root)
    if order.tokenizer and Path(order.tokenizer).is_dir():
        check_tree(Path(order.tokenizer), root)
    from ingot.converters.sources.storage.listing import list_location
    from ingot.converters.sources.storage.places import storage_places
    from ingot.converters.sources.tables.table_folders import list_tables, split_version

    # All that lies there, and what a metadata file of a table leads to.
    for listing in (list_location(split_version(order.source)[0]), list_tables(order.source)):
        for file in (one for each in listing.entries for one in storage_places(each.place)):
            check_inside(str(file), root)


def check_inside(place: str, root: Path) -> None:
    """Refuse a path that does not lie below a folder, links followed."""
    folder = root.resolve()
    if folder not in Path(place).resolve().parents:
        raise ConversionError(place, f"lies outside of {root}", "name a place below that folder")


def place_below(name: str, root: Path) -> str:
    """The absolute path of a name below a folder; a URL, or what lies outside, is refused."""
    if "://" in name:
        raise ConversionError(name, "is a URL: only what lies below --root is read and written")
    if not name:
        raise ConversionError("path", "is empty", "name a file or folder")
    if re.search(CONTROL, name):
        raise ConversionError("path", "control characters stand in no name")
    place = str(root / name)
    check_inside(place, root)
    return place


def name_below(place: str | Path, root: Path) -> str:
    """Return a path below a folder as clients name it; `.` for the folder and what lies outside."""
    resolved = Path(place).resolve()
    return str(resolved.relative_to(root)) if root in resolved.parents else "."


def check_tree(folder: Path, root: Path) -> None:
    """Refuse a folder with links that leave another one: what is read of it lies there."""
    for place in folder.rglob("*"):
        check_inside(str(place), root)
