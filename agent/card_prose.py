"""Markdown that people write beside data: front matter, title, what it says of fields, plain prose.

Nothing is rendered. Whatever a text does, it is read in one pass of patterns with bounded repeats:
time is linear in its length.
"""

import html
import re
from collections.abc import Iterator

from ingot.agent.mappers.showing.cleaning import clean

Field = tuple[str, str]

_FENCE = re.compile(r"[ ]{0,3}(```|~~~)")
_HEADING = re.compile(r" ?(#{1,6}) (.{1,400})")
_RULE = re.compile(r" ?(?:[-*_=] ?){3,400}")
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,400}\]\([^()\n]{0,2000}\)")
_LINK = re.compile(r"\[([^\[\]\n]{0,400})\]\([^()\n]{0,2000}\)")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,400}>")
_MARK = re.compile(r"\*{1,3}|`{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)|~~")
_ITEM = r" ?(?:[-*+]|\d{1,3}[.)]) "
_BULLET = re.compile(_ITEM)
_CONTENTS = re.compile(_ITEM + r"\[[^\[\]\n]{0,400}\]\(#[^()\n]{0,400}\)\s*")
_EMPTY = re.compile(r"\[?more information needed\]?\.?", re.IGNORECASE)
_BLANKS = re.compile(r"[ \t\u00a0\u3000]+")
# `name`: text, **name** (type): text, name - text
_FIELD = re.compile(
    _ITEM + r"(?:[`*_]{1,3}|(?=\w))([\w.\-/]{1,128})[`*_]{0,3} ?"
    r"(?:\(([^()\n]{1,80})\))?[`*_]{0,3} ?(?::|\uff1a|--|\u2014|\u2013|-)[ `*_]{0,8}(.{0,2000})"
)
_FIELDS = re.compile(
    r"\b(?:fields?|features|columns|schema)\b|\u5b57\u6bb5|\u5217\u8bf4\u660e", re.IGNORECASE
)
_GAP = re.compile(r"\n{3,}")
_MOST_FRONT = 1_000  # lines


def split(text: str) -> tuple[str, str]:
    """The YAML between two lines of `---` at the beginning ("" = there is none), and the rest."""
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].rstrip() != "---":
        return "", text
    for number, line in enumerate(lines[1 : _MOST_FRONT + 1], start=1):
        if line.rstrip() in ("---", "..."):
            return "".join(lines[1:number]), "".join(lines[number + 1 :])
    return "", text


def title(body: str) -> str:
    """The first heading of the highest level that comes first, "" where there is none."""
    for line in _spoken(body):
        if found := _HEADING.fullmatch(line):
            return _bare(found[2])
    return ""


def fields(body: str) -> list[Field]:
    """Names and descriptions of the fields that a section about fields lists."""
    found: list[Field] = []
    level, inside = 0, False
    for line in _spoken(body):
        if heading := _HEADING.fullmatch(line):
            depth = len(heading[1])
            if inside and depth <= level:
                inside = False
            if not inside and _FIELDS.search(heading[2]):
                level, inside = depth, True
        elif inside and (said := _FIELD.fullmatch(line)):
            described = " ".join(part for part in (said[2] or "", _bare(said[3])) if part)
            found.append((said[1], described))
    return found


def plain(body: str) -> str:
    """The prose without markup, code, tables, pictures, comments and empty sections."""
    lines: list[str] = []
    above: list[tuple[int, str]] = []  # headings under which nothing has been said yet
    for line in _spoken(body):
        if heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            above = [*(one for one in above if one[0] < level), (level, _bare(heading[2]))]
        elif told := _line(line):
            lines += [part for _, title in above for part in ("", title, "")]
            lines.append(told)
            above = []
        else:
            lines.append("")
    return _GAP.sub("\n\n", "\n".join(lines)).strip()


def _line(line: str) -> str:
    if line.lstrip().startswith("|") or _RULE.fullmatch(line) or _CONTENTS.fullmatch(line):
        return ""
    bullet = _BULLET.match(line)
    said = _bare(line[bullet.end() :] if bullet else line.lstrip("> \t"))
    if not said or _EMPTY.fullmatch(said):
        return ""
    return f"- {said}" if bullet else said


def _bare(text: str) -> str:
    """A line without marks: what a reader of the rendered page would see."""
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    text = _MARK.sub("", _TAG.sub("", text))
    return _BLANKS.sub(" ", clean(html.unescape(text)).replace("\n", " ")).strip(" #")


def _spoken(body: str) -> Iterator[str]:
    """The lines outside comments and blocks of code, runs of blanks as one."""
    fence = ""
    for line in _uncommented(body).splitlines():
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            yield _BLANKS.sub(" ", line).rstrip()


def _uncommented(text: str) -> str:
    """The text without HTML comments; one that does not end hides the rest, as in a browser."""
    parts, done = [], 0
    while (start := text.find("<!--", done)) >= 0:
        parts.append(text[done:start])
        end = text.find("-->", start)
        done = len(text) if end < 0 else end + 3
    return "".join([*parts, text[done:]])
