"""What stands at the head of a document: front matter, title, licence."""

import datetime as dt
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ingot.converters.json_yaml import read_yaml
from ingot.converters.rows import Json

_HEAD: Final = 64 << 10  # characters that front matter, title and licence stand in
_MOST_VALUES: Final = 10_000  # of front matter, aliases written out
_MOST_DEPTH: Final = 32
_MOST_TITLE: Final = 1_000  # characters


class _FrontMatterError(ValueError):
    """What stands between the marks is no front matter."""


# --- front matter


def split_front_matter(text: str) -> tuple[dict[str, Json] | None, str]:
    """The fields between `---` (YAML) or `+++` (TOML) at the start of a text, and what follows.

    None and the whole text where there are none, or where they are no object that can be read.
    """
    lines = text[:_HEAD].split("\n")
    mark = lines[0].rstrip()
    read = _READERS.get(mark)
    ends = (mark, "...") if mark == "---" else (mark,)
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() in ends), 0)
    if read is None or not end or (end == len(lines) - 1 and len(text) > _HEAD):
        return None, text
    try:
        fields = _to_json(read("\n".join(lines[1:end])), [_MOST_VALUES])
    except (ValueError, OverflowError, RecursionError):
        return None, text
    if not isinstance(fields, dict):
        return None, text
    body = text[sum(len(line) + 1 for line in lines[: end + 1]) :]
    return fields, body.lstrip("\n")


def _read_yaml(block: str) -> object:
    return read_yaml(block, aliases=True)


_READERS: Final[dict[str, Callable[[str], object]]] = {"---": _read_yaml, "+++": tomllib.loads}


def _to_json(value: object, left: list[int], depth: int = 0) -> Json:
    """A value of YAML or TOML as JSON; `left` is how many values there may still be."""
    left[0] -= 1
    if left[0] < 0 or depth > _MOST_DEPTH:
        raise _FrontMatterError("too many values, or nested too deep")
    if isinstance(value, dict):
        return {_key_text(key): _to_json(one, left, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_to_json(one, left, depth + 1) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dt.date | dt.time):  # a datetime is a date
        return value.isoformat()
    if value is None or isinstance(value, str | int):
        return value
    raise _FrontMatterError(f"a {type(value).__name__} has no form in JSON")


def _key_text(key: object) -> str:
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return key.isoformat() if isinstance(key, dt.date) else str(key)


_FIELD: Final = re.compile(r":([A-Za-z][^:\n]{0,80}):(?:[ \t]([^\n]*))?$")


def split_docinfo(text: str) -> tuple[dict[str, Json] | None, str]:
    """The fields `:name: value` at the top of reStructuredText or below its title, and the rest."""
    lines = text[:_HEAD].split("\n")
    first = _next_text(lines, 0)
    over = _is_rule("".join(lines[first : first + 1]).rstrip())
    titled = [end for _, end in _rst_titles(lines[: first + 3]) if end == first + 2 + over]
    start = at = _next_text(lines, titled[0] if titled else first)
    fields: dict[str, str] = {}
    name = ""
    while at < len(lines) and lines[at].strip():
        if match := _FIELD.match(lines[at].rstrip()):
            name = match[1].strip()
            fields[name] = (match[2] or "").strip()
        elif fields and lines[at][:1].isspace():
            fields[name] = f"{fields[name]}\n{lines[at].strip()}".strip()
        else:
            break
        at += 1
    if not fields or (at == len(lines) and len(text) > _HEAD):
        return None, text
    rest = text[sum(len(line) + 1 for line in lines[:at]) :].lstrip("\n")
    return dict(fields), "\n".join([*lines[:start], rest]).lstrip("\n")


def _next_text(lines: list[str], start: int) -> int:
    """The first line from `start` that is not blank."""
    return next((n for n in range(start, len(lines)) if lines[n].strip()), len(lines))


# --- titles


def _title_text(value: object) -> str | None:
    text = " ".join(value.split())[:_MOST_TITLE] if isinstance(value, str) else ""
    return text or None


def stated_title(fields: Mapping[str, Json] | None) -> str | None:
    """The title that front matter names."""
    named = {key.lower(): value for key, value in (fields or {}).items()}
    return _title_text(named.get("title"))


def markdown_title(text: str) -> str | None:
    """The first heading of Markdown that stands in no block of code."""
    fence, before = "", ""
    for line in text[:_HEAD].split("\n"):
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
            continue
        if bare.startswith(("```", "~~~")):
            fence, before = bare[: len(bare) - len(bare.lstrip(bare[0]))], ""
            continue
        level = len(bare) - len(bare.lstrip("#"))
        if 1 <= level <= 6 and bare[level : level + 1].isspace() and not line.startswith("    "):
            if title := _title_text(bare[level:].rstrip("#")):
                return title
        elif before and len(bare) >= 3 and (not bare.strip("=") or not bare.strip("-")):
            return _title_text(before)
        before = "" if bare.startswith(("|", "-", "*", ">", "#", "<")) else bare
    return None


def rst_title(text: str) -> str | None:
    """The first title of reStructuredText: a line with a line of one sign below it."""
    found = next(iter(_rst_titles(text[:_HEAD].split("\n"))), None)
    return _title_text(found[0]) if found else None


def _rst_titles(lines: list[str]) -> Iterator[tuple[str, int]]:
    """The titles, each with the number of the line behind it."""
    for number in range(len(lines) - 1):
        bare, below = lines[number].strip(), lines[number + 1].rstrip()
        if bare and _is_rule(below) and not _is_rule(bare) and len(below) >= len(bare):
            yield bare, number + 2


def _is_rule(line: str) -> bool:
    return (
        len(line) >= 2
        and not line[0].isalnum()
        and not line[0].isspace()
        and not line.strip(line[0])
    )


def latex_title(text: str) -> str | None:
    r"""What stands in the braces of `\title`."""
    start = text.find("\\title", 0, _HEAD)
    while start >= 0 and text[start + 6 : start + 7] not in ("{", "["):
        start = text.find("\\title", start + 6, _HEAD)  # \titleformat
    if start < 0:
        return None
    depth, opened = 0, text.find("{", start, start + _MOST_TITLE)
    for place in range(opened, min(len(text), opened + _MOST_TITLE)) if opened >= 0 else ():
        if text[place - 1] != "\\":
            depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return _title_text(text[opened + 1 : place].replace("\\\\", " "))
    return None


# --- licences

_SPDX: Final = re.compile(r"SPDX-License-Identifier:[ \t]{0,9}([\w.+()-][\w.+() -]{0,200})")
_MARKS: Final = re.compile(r"[\s*#/;%!\"'|-]+")
_LICENCE_HEAD: Final = 8_000  # characters
_WORDS: Final = ("licen", "permission", "redistribution", "unencumbered")  # one is in each heading
_HEADINGS: Final = {
    "licensed under the apache license, version 2.0": "Apache-2.0",
    "permission is hereby granted, free of charge, to any person obtaining a copy": "MIT",
    "subject to the terms of the mozilla public license, v. 2.0": "MPL-2.0",
    "permission to use, copy, modify, and distribute this software for any": "ISC",
    "permission to use, copy, modify, and/or distribute this software for any": "ISC",
    "this is free and unencumbered software released into the public domain": "Unlicense",
}
_PLAIN_HEADINGS: Final = {_MARKS.sub(" ", said): name for said, name in _HEADINGS.items()}
_GNU: Final = re.compile(
    r"terms of the gnu (?P<which>lesser |affero )?general public license.{0,200}?"
    r"version (?P<version>[23](?:\.[01])?)\b(?P<rest>.{0,120})"
)
_BSD: Final = "redistribution and use in source and binary forms"


def find_licence(text: str) -> str | None:
    """The licence that the head of a file states, as SPDX names it; None where none is known."""
    head = text[:_LICENCE_HEAD]
    if match := _SPDX.search(head) if "SPDX" in head else None:
        return match[1].removesuffix("--").strip() or None
    lower = head.lower()
    if not any(word in lower for word in _WORDS):
        return None
    plain = _MARKS.sub(" ", lower)  # a heading goes over several lines of a comment
    if match := _GNU.search(plain):
        which = {"lesser ": "LGPL", "affero ": "AGPL"}.get(match["which"] or "", "GPL")
        version = match["version"] if "." in match["version"] else f"{match['version']}.0"
        return f"{which}-{version}-{'or-later' if 'any later version' in match['rest'] else 'only'}"
    found = next((name for said, name in _PLAIN_HEADINGS.items() if said in plain), None)
    if found or _BSD not in plain:
        return found
    if "advertising materials" in plain:
        return "BSD-4-Clause"
    return "BSD-3-Clause" if "endorse or promote" in plain else "BSD-2-Clause"


def as_fields(**values: Any) -> dict[str, Json]:  # noqa: ANN401
    """The values that are known, as fields of a row."""
    return {name: value for name, value in values.items() if value not in (None, "")}
