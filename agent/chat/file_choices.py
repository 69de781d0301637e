"""Commands about the files of a source: which sheets or files are read, and where a header is."""

import difflib
import re
from collections.abc import Sequence

from ingot.agent.chat.edits import EDIT, WHERE, Edit
from ingot.agent.chat.typed_values import NOTHING, ValueSyntaxError, split_outside_quotes
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.language import Mapping
from ingot.converters.sources import Source
from ingot.converters.sources.storage.listing import literal_glob, matches_globs

_WHAT = re.compile(r"(?:(?:the )?(?:sheets?|files?|tables?|members?) )?(.+)", re.IGNORECASE)
_ROWS = re.compile(r"rows? (\d{1,3})(?: ?(?:,|-|and) ?(\d{1,3}))?", re.IGNORECASE)
FILE_EDITS = ("files", "header_rows")
EVERY = "all"
_SHOWN = 8


def read_header(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit:
    """Parse `row 3`, `rows 3,4` or `row none`."""
    if rest.lower() in {f"row {one}" for one in NOTHING}:
        return {"set": "header_rows", "rows": []}
    if not (match := _ROWS.fullmatch(rest)):
        raise ValueSyntaxError("type the number of a row as the program shows it")
    return {"set": "header_rows", "rows": [int(one) for one in match.groups() if one]}


def read_chosen(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit:
    """Parse `sheets A, B`, `files *.csv` or `all`."""
    return {"set": "files", "read": _typed_names(rest), "leave_out": []}


def read_left_out(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit:
    """Parse `out sheet A, B`."""
    if not rest.lower().startswith("out "):
        raise ValueSyntaxError("the word out must follow")
    return {"set": "files", "read": [], "leave_out": _typed_names(rest[4:].strip())}


def _typed_names(rest: str) -> list[str]:
    match = _WHAT.fullmatch(rest)
    names = [one.strip('"') for one in split_outside_quotes(match[1], ",")] if match else []
    if not names:
        raise ValueSyntaxError("type names of sheets or files, or a pattern such as *.csv")
    return names


def name_files(edit: Edit, number: int, source: Source) -> Edit:
    """Replace typed names by patterns for the files there are. Raises MappingError."""
    data = [one.name for one in source.files]
    known = [*data, *(one.name for one in source.left_out)]
    data += [one.name for one in source.left_out if one.kind in ("shape", "unselected")]
    completed = dict(edit)
    for key in ("read", "leave_out"):
        names = data if key == "read" and edit[key] == [EVERY] else edit[key]
        completed[key] = [_pattern(name, f"/edits/{number}/{key}", known) for name in names]
    return completed


def _pattern(name: str, pointer: str, known: Sequence[str]) -> str:
    """Return a typed pattern, or one for the file of that name."""
    if any(matches_globs(one, [name]) for one in known):
        return name
    short = {one.rpartition("/")[2].lower(): one.rpartition("/")[2] for one in known}
    if name.lower() in short:
        return literal_glob(short[name.lower()])
    close = difflib.get_close_matches(name.lower(), short, 1)
    expected = (
        f"a sheet or file that is there: {', '.join(map(repr, list(short.values())[:_SHOWN]))}"
    )
    nearest = short[close[0]] if close else None
    raise MappingError(WHERE, (Problem(pointer, EDIT, expected, repr(name), nearest),))
