"""Read the cards that people write beside data, in Markdown, JSON or YAML, as plain facts.

Nothing is rendered: a text is read in one pass of bounded patterns, in time linear in its length.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.agent.privacy.redaction import clean_text
from ingot.converters.rows import Json

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


def split_front_matter(text: str) -> tuple[str, str]:
    """Split a text into the YAML between two lines of `---` at its start, and the rest.

    The YAML is "" if there is none.
    """
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].rstrip() != "---":
        return "", text
    for number, line in enumerate(lines[1 : _MOST_FRONT + 1], start=1):
        if line.rstrip() in ("---", "..."):
            return "".join(lines[1:number]), "".join(lines[number + 1 :])
    return "", text


def prose_title(body: str) -> str:
    """Return the first heading of the highest level that comes first, "" if there is none."""
    for line in _prose_lines(body):
        if found := _HEADING.fullmatch(line):
            return _strip_marks(found[2])
    return ""


def prose_fields(body: str) -> list[Field]:
    """Return names and descriptions of the fields that a section about fields lists."""
    found: list[Field] = []
    level, inside = 0, False
    for line in _prose_lines(body):
        if heading := _HEADING.fullmatch(line):
            depth = len(heading[1])
            if inside and depth <= level:
                inside = False
            if not inside and _FIELDS.search(heading[2]):
                level, inside = depth, True
        elif inside and (said := _FIELD.fullmatch(line)):
            described = " ".join(part for part in (said[2] or "", _strip_marks(said[3])) if part)
            found.append((said[1], described))
    return found


def plain_prose(body: str) -> str:
    """Return the prose without markup, code, tables, pictures, comments and empty sections."""
    lines: list[str] = []
    above: list[tuple[int, str]] = []  # headings under which nothing has been said yet
    for line in _prose_lines(body):
        if heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            above = [*(one for one in above if one[0] < level), (level, _strip_marks(heading[2]))]
        elif told := _prose_line(line):
            lines += [part for _, title in above for part in ("", title, "")]
            lines.append(told)
            above = []
        else:
            lines.append("")
    return _GAP.sub("\n\n", "\n".join(lines)).strip()


def _prose_line(line: str) -> str:
    if line.lstrip().startswith("|") or _RULE.fullmatch(line) or _CONTENTS.fullmatch(line):
        return ""
    bullet = _BULLET.match(line)
    said = _strip_marks(line[bullet.end() :] if bullet else line.lstrip("> \t"))
    if not said or _EMPTY.fullmatch(said):
        return ""
    return f"- {said}" if bullet else said


def _strip_marks(text: str) -> str:
    """A line without marks: what a reader of the rendered page would see."""
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    text = _MARK.sub("", _TAG.sub("", text))
    return _BLANKS.sub(" ", clean_text(html.unescape(text)).replace("\n", " ")).strip(" #")


def _prose_lines(body: str) -> Iterator[str]:
    """The lines outside comments and blocks of code, runs of blanks as one."""
    fence = ""
    for line in _drop_comments(body).splitlines():
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            yield _BLANKS.sub(" ", line).rstrip()


def _drop_comments(text: str) -> str:
    """The text without HTML comments; one that does not end hides the rest, as in a browser."""
    parts, done = [], 0
    while (start := text.find("<!--", done)) >= 0:
        parts.append(text[done:start])
        end = text.find("-->", start)
        done = len(text) if end < 0 else end + 3
    return "".join([*parts, text[done:]])


_DEEPEST = 4  # levels of a type that are told
_MOST = 200  # items of a list that are looked at
_MOST_NUMBER = 10**15  # digits of longer ones are no words, and cost


@dataclass(frozen=True, kw_only=True, slots=True)
class CardText:
    """What one document says, in its own words: not cleaned, not cut."""

    title: str = ""
    license: str = ""
    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    text: str = ""


def read_front_matter(document: Json) -> CardText:
    """Return the YAML of a card as the Hugging Face Hub reads it."""
    known = _as_object(document)
    infos = [_as_object(one) for one in _as_list(known.get("dataset_info"))]
    return CardText(
        title=_as_text(known.get("pretty_name")) or _as_text(known.get("title")),
        license=_license_name(known.get("license_name")) or _license_name(known.get("license")),
        languages=_language_names(known.get("language", known.get("languages"))),
        tasks=_as_texts(known.get("task_categories")) + _as_texts(known.get("task_ids")),
        fields=_distinct_fields(
            one for info in infos for one in _feature_fields(info.get("features"))
        ),
        text=_as_text(known.get("description")),
    )


def read_dataset_infos(document: Json) -> CardText:
    """Read `dataset_infos.json` (configurations by name) or `dataset_info.json` (one)."""
    known = _as_object(document)
    nested = [one for one in list(known.values())[:_MOST] if isinstance(one, dict)]
    infos = [known] if "features" in known else [one for one in nested if "features" in one]
    if not infos:
        return CardText()
    return CardText(
        license=next(filter(None, (_license_name(one.get("license")) for one in infos)), ""),
        fields=_distinct_fields(
            each for one in infos for each in _feature_fields(one.get("features"))
        ),
        text=next(filter(None, (_as_text(one.get("description")) for one in infos)), ""),
    )


def read_croissant(document: Json) -> CardText:
    """Read the record sets and fields of Croissant's JSON-LD."""
    known = _as_object(document)
    records = [_as_object(one) for one in _as_list(known.get("recordSet"))]
    found = (_as_object(field) for one in records for field in _as_list(one.get("field")))
    return CardText(
        title=_as_text(known.get("name")),
        license=_license_name(known.get("license")),
        languages=_language_names(known.get("inLanguage")),
        fields=_distinct_fields(map(_croissant_field, found)),
        text=_as_text(known.get("description")),
    )


def read_data_package(document: Json) -> CardText:
    """Return a Frictionless data package: resources with schemas."""
    known = _as_object(document)
    schemas = (
        _as_object(_as_object(one).get("schema")) for one in _as_list(known.get("resources"))
    )
    found = (_as_object(field) for one in schemas for field in _as_list(one.get("fields")))
    return CardText(
        title=_as_text(known.get("title")) or _as_text(known.get("name")),
        license=next(filter(None, map(_license_name, _as_list(known.get("licenses")))), ""),
        languages=_language_names(known.get("languages", known.get("language"))),
        fields=_distinct_fields(map(_package_field, found)),
        text=_as_text(known.get("description")),
    )


def read_any_card(document: Json) -> CardText:
    """Return a card in JSON or YAML of no known format: the keys that the others have."""
    known = _as_object(document)
    if "recordSet" in known:
        return read_croissant(known)
    if "resources" in known:
        return read_data_package(known)
    said = read_front_matter(known)
    found = _feature_fields(known.get("features", known.get("fields")))
    return replace(
        said,
        title=said.title or _as_text(known.get("name")),
        tasks=said.tasks or _as_texts(known.get("tasks")),
        fields=said.fields or _distinct_fields(found),
    )


# --- fields


def _feature_fields(found: Json) -> Iterator[Field]:
    """Features as `datasets` writes them: in YAML a list with names, in JSON an object by name."""
    if isinstance(found, dict):
        for name, kind in list(found.items())[:_MOST]:
            yield str(name), _kind_text(kind, _DEEPEST)
        return
    for one in _as_list(found):
        if isinstance(one, dict):
            name, said = _package_field(one)
            yield name, said or _kind_text(one, _DEEPEST)


def _package_field(one: Mapping[str, Json]) -> Field:
    kind, said = _as_text(one.get("type")), _as_text(one.get("description"))
    return _as_text(one.get("name")), ", ".join(part for part in (kind, said) if part)


def _croissant_field(one: Mapping[str, Json]) -> Field:
    named = _as_text(one.get("name")) or _as_text(one.get("@id"))
    kind = _as_text(next(iter(_as_list(one.get("dataType"))), "")).rpartition(":")[2]
    said = _as_text(one.get("description"))
    return named.rpartition("/")[2], ", ".join(part for part in (kind, said) if part)


def _kind_text(found: Json, levels: int) -> str:
    """A feature's type in a few words: `string`, `list of {role string, content string}`."""
    if isinstance(found, str):
        return found
    if not levels:
        return "..."
    if isinstance(found, list):
        if all(isinstance(one, dict) and "name" in one for one in found):
            return _struct_kind(((_as_text(one["name"]), one) for one in found), levels)
        return f"list of {_kind_text(found[0], levels - 1)}"
    return _object_kind(_as_object(found), levels)


def _object_kind(found: Mapping[str, Json], levels: int) -> str:
    dtype = found.get("dtype")
    if isinstance(dtype, str):
        return dtype
    for key in ("list", "sequence", "feature"):
        if key in found:
            return f"list of {_kind_text(found[key], levels - 1)}".rstrip(" .")
    inner = found.get("struct", dtype)
    if inner is not None:
        return _kind_text(inner, levels - 1)
    if "_type" in found:
        return _as_text(found["_type"])
    rest = ((str(name), kind) for name, kind in found.items() if name != "name")
    return _struct_kind(rest, levels)


def _struct_kind(members: Iterable[tuple[str, Json]], levels: int) -> str:
    told = [f"{name} {_kind_text(kind, levels - 1)}" for name, kind in list(members)[:8]]
    return "{" + ", ".join(told) + "}" if told else ""


def _distinct_fields(found: Iterable[Field]) -> tuple[Field, ...]:
    """One description per name; of several the first that says something."""
    kept: dict[str, str] = {}
    for name, said in found:
        if name and not kept.get(name):
            kept[name] = said
    return tuple(kept.items())


# --- values of any type


def _language_names(found: Json) -> tuple[str, ...]:
    """Codes or names; YAML reads the code of Norwegian as the opposite of true."""
    listed = (key for one in _as_list(found) for key in (one if isinstance(one, dict) else [one]))
    return tuple("no" if one is False else _as_text(one) for one in listed)


def _license_name(found: Json) -> str:
    """A license's name: a text, the first of a list, or an object that names it."""
    for one in _as_list(found):
        known = _as_object(one)
        said = _as_text(one) or next(filter(None, map(_as_text, map(known.get, _NAME_KEYS))), "")
        if said:
            return said
    return ""


_NAME_KEYS = ("name", "title", "path", "url", "@id")


def _as_object(found: Json) -> Mapping[str, Json]:
    return found if isinstance(found, dict) else {}


def _as_list(found: Json) -> list[Json]:
    if isinstance(found, list):
        return found[:_MOST]
    return [] if found is None else [found]


def _as_texts(found: Json) -> tuple[str, ...]:
    return tuple(text for one in _as_list(found) if (text := _as_text(one)))


def _as_text(found: Json) -> str:
    if isinstance(found, str):
        return found.strip()
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return str(found) if number and abs(found) < _MOST_NUMBER else ""
