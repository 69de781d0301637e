"""What stands at the head of a document: front matter, title, licence."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Final

from ingot.converters.json_yaml import read_yaml
from ingot.converters.rows import Json
from ingot.converters.sources.formats.row_chunks import is_deep

_HEAD: Final = 64 << 10  # characters that front matter, title and licence stand in
_MOST_PIECES: Final = 40_000  # of front matter as JSON, aliases written out: some 10,000 values
_MOST_TITLE: Final = 1_000  # characters

# --- front matter

_READERS: Final[dict[str, Callable[[str], object]]] = {
    "---": partial(read_yaml, aliases=True),
    "+++": tomllib.loads,
}


def split_front_matter(text: str) -> tuple[dict[str, Json] | None, str]:
    """Split a text into the fields between `---` (YAML) or `+++` (TOML) at its start, and the rest.

    Returns None and the whole text if there are no such fields, or if they are not a readable
    object.
    """
    lines = text[:_HEAD].split("\n")
    mark = lines[0].rstrip()
    ends = (mark, "...") if mark == "---" else (mark,)
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() in ends), 0)
    if mark not in _READERS or not end or (end == len(lines) - 1 and len(text) > _HEAD):
        return None, text
    try:
        fields = _READERS[mark]("\n".join(lines[1:end]))
        # Piece by piece: aliases may stand for more than can be held.
        parts = json.JSONEncoder(default=methodcaller("isoformat")).iterencode(fields)
        fields = json.loads("".join(islice(parts, _MOST_PIECES)), parse_constant=lambda _: None)
        if not isinstance(fields, dict) or is_deep(fields):
            return None, text
    except (ValueError, OverflowError, RecursionError, TypeError, AttributeError):
        return None, text
    return fields, text[sum(len(line) + 1 for line in lines[: end + 1]) :].lstrip("\n")


_FIELD: Final = re.compile(
    r"^:([A-Za-z][^:\n]{0,80}):((?:[ \t][^\n]*)?(?:\n[ \t]+\S[^\n]*)*+)$", re.M
)
_FIELDS: Final = re.compile(rf"\s*^((?:{_FIELD.pattern}\n?)++)", re.M)


def split_docinfo(text: str) -> tuple[dict[str, Json] | None, str]:
    """Split reStructuredText into the fields `:name: value` near its top, and the rest.

    The fields stand at the top of the text or below its title.
    """
    head = text[:_HEAD]
    title = next(rst_titles(head), None)
    top = title is not None and _RULE.fullmatch(head[: title.start()].strip() or "==")
    match = _FIELDS.match(head, title.end() if title and top else 0)
    if match is None or (match.end() == len(head) and len(text) > _HEAD):
        return None, text
    fields: dict[str, Json] = {
        field[1].strip(): "\n".join(map(str.strip, field[2].split("\n"))).strip()
        for field in _FIELD.finditer(match[1])
    }
    return fields, (text[: match.start(1)] + text[match.end() :].lstrip("\n")).lstrip("\n")


# --- titles


def title_text(value: object) -> str | None:
    """Return a title on one line, None for what is no text or an empty one."""
    text = " ".join(value.split())[:_MOST_TITLE] if isinstance(value, str) else ""
    return text or None


FENCED: Final = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.M | re.S)
MD_HEADING: Final = re.compile(
    r"^ {0,3}#{1,6}[ \t]([^\n]*)|^[ \t]*([^\s|*><#-][^\n]*)\n[ \t]*(?:===+|---+)[ \t]*$", re.M
)


def markdown_title(text: str) -> str | None:
    """Return the first heading of Markdown that stands in no block of code."""
    headings = MD_HEADING.finditer(FENCED.sub("", text[:_HEAD]))
    titles = (title_text(heading[2] or heading[1].rstrip().rstrip("#")) for heading in headings)
    return next(filter(None, titles), None)


_RULE: Final = re.compile(r"([^\w\s])\1+")
_RST_TITLE: Final = re.compile(r"^[ \t]*(\S[^\n]*)\n(([^\w\s])\3+)[ \t]*$", re.M)


def rst_title(text: str) -> str | None:
    """Return the first title of reStructuredText: a line with a line of one sign below it."""
    return next((title_text(title[1]) for title in rst_titles(text[:_HEAD])), None)


def rst_titles(text: str) -> Iterator[re.Match[str]]:
    """Yield the titles of reStructuredText: group 1 is the title, group 3 the sign below it."""
    for match in _RST_TITLE.finditer(text):
        bare = match[1].rstrip()
        if len(bare) <= len(match[2]) and not _RULE.fullmatch(bare):
            yield match


_LATEX_TITLE: Final = re.compile(
    r"\\title(?:\[[^]]{0,1000}\])?"
    r"\{((?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.|\{[^{}]*\}){0,1000}+\}){0,1000}+)\}",
    re.S,
)


def latex_title(text: str) -> str | None:
    r"""Return what stands in the braces of `\title`."""
    match = _LATEX_TITLE.search(text, 0, _HEAD)
    return title_text(match[1].replace("\\\\", " ")) if match else None


# --- licences

_SPDX: Final = re.compile(r"SPDX-License-Identifier:[ \t]{0,9}([\w.+()-][\w.+() -]{0,200})")
_MARKS: Final = re.compile(r"[\s*#/;%!\"'|-]+")
_LICENCE_HEAD: Final = 8_000  # characters
_WORDS: Final = ("licen", "permission", "redistribution", "unencumbered")  # one is in each heading
_HEADINGS: Final = {  # without marks
    "licensed under the apache license, version 2.0": "Apache-2.0",
    "permission is hereby granted, free of charge, to any person obtaining a copy": "MIT",
    "subject to the terms of the mozilla public license, v. 2.0": "MPL-2.0",
    "permission to use, copy, modify, and distribute this software for any": "ISC",
    "permission to use, copy, modify, and or distribute this software for any": "ISC",
    "this is free and unencumbered software released into the public domain": "Unlicense",
}
_GNU: Final = re.compile(
    r"terms of the gnu (?P<which>lesser |affero )?general public license.{0,200}?"
    r"version (?P<version>[23](?:\.[01])?)\b(?P<rest>.{0,120})"
)
_BSD: Final = "redistribution and use in source and binary forms"


def find_licence(text: str) -> str | None:
    """Return the licence that the head of a file states, as SPDX names it.

    None if none is known.
    """
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
    manual = next((name for heading, name in _HEADINGS.items() if heading in plain), None)
    if manual or _BSD not in plain:
        return manual
    if "advertising materials" in plain:
        return "BSD-4-Clause"
    return "BSD-3-Clause" if "endorse or promote" in plain else "BSD-2-Clause"
