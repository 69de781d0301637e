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
        if match := _HEADING.fullmatch(line):
            return _strip_marks(match[2])
    return ""


def prose_fields(body: str) -> list[Field]:
    """Return names and descriptions of the fields that a section about fields lists."""
    listed: list[Field] = []
    level, inside = 0, False
    for line in _prose_lines(body):
        if heading := _HEADING.fullmatch(line):
            depth = len(heading[1])
            if inside and depth <= level:
                inside = False
            if not inside and _FIELDS.search(heading[2]):
                level, inside = depth, True
        elif inside and (match := _FIELD.fullmatch(line)):
            described = " ".join(part for part in (match[2] or "", _strip_marks(match[3])) if part)
            listed.append((match[1], described))
    return listed


def plain_prose(body: str) -> str:
    """Return the prose without markup, code, tables, pictures, comments and empty sections."""
    lines: list[str] = []
    above: list[tuple[int, str]] = []  # headings under which nothing has been said yet
    for line in _prose_lines(body):
        if heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            above = [
                *(heading_above for heading_above in above if heading_above[0] < level),
                (level, _strip_marks(heading[2])),
            ]
        elif prose := _prose_line(line):
            lines += [part for _, title in above for part in ("", title, "")]
            lines.append(prose)
            above = []
        else:
            lines.append("")
    return _GAP.sub("\n\n", "\n".join(lines)).strip()


def _prose_line(line: str) -> str:
    if line.lstrip().startswith("|") or _RULE.fullmatch(line) or _CONTENTS.fullmatch(line):
        return ""
    bullet = _BULLET.match(line)
    text = _strip_marks(line[bullet.end() :] if bullet else line.lstrip("> \t"))
    if not text or _EMPTY.fullmatch(text):
        return ""
    return f"- {text}" if bullet else text


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
    infos = [_as_object(info) for info in _as_list(known.get("dataset_info"))]
    return CardText(
        title=_as_text(known.get("pretty_name")) or _as_text(known.get("title")),
        license=_license_name(known.get("license_name")) or _license_name(known.get("license")),
        languages=_language_names(known.get("language", known.get("languages"))),
        tasks=_as_texts(known.get("task_categories")) + _as_texts(known.get("task_ids")),
        fields=_distinct_fields(
            field for info in infos for field in _feature_fields(info.get("features"))
        ),
        text=_as_text(known.get("description")),
    )


def read_dataset_infos(document: Json) -> CardText:
    """Read `dataset_infos.json` (configurations by name) or `dataset_info.json` (one)."""
    known = _as_object(document)
    nested = [
        nested_value
        for nested_value in list(known.values())[:_MOST]
        if isinstance(nested_value, dict)
    ]
    infos = (
        [known]
        if "features" in known
        else [nested_value for nested_value in nested if "features" in nested_value]
    )
    if not infos:
        return CardText()
    return CardText(
        license=next(filter(None, (_license_name(info.get("license")) for info in infos)), ""),
        fields=_distinct_fields(
            each for info in infos for each in _feature_fields(info.get("features"))
        ),
        text=next(filter(None, (_as_text(info.get("description")) for info in infos)), ""),
    )


def read_croissant(document: Json) -> CardText:
    """Read the record sets and fields of Croissant's JSON-LD."""
    known = _as_object(document)
    records = [_as_object(record_set) for record_set in _as_list(known.get("recordSet"))]
    listed_fields = (
        _as_object(field) for record in records for field in _as_list(record.get("field"))
    )
    return CardText(
        title=_as_text(known.get("name")),
        license=_license_name(known.get("license")),
        languages=_language_names(known.get("inLanguage")),
        fields=_distinct_fields(map(_croissant_field, listed_fields)),
        text=_as_text(known.get("description")),
    )


def read_data_package(document: Json) -> CardText:
    """Return a Frictionless data package: resources with schemas."""
    known = _as_object(document)
    schemas = (
        _as_object(_as_object(resource).get("schema"))
        for resource in _as_list(known.get("resources"))
    )
    listed_fields = (
        _as_object(field) for schema in schemas for field in _as_list(schema.get("fields"))
    )
    return CardText(
        title=_as_text(known.get("title")) or _as_text(known.get("name")),
        license=next(filter(None, map(_license_name, _as_list(known.get("licenses")))), ""),
        languages=_language_names(known.get("languages", known.get("language"))),
        fields=_distinct_fields(map(_package_field, listed_fields)),
        text=_as_text(known.get("description")),
    )


def read_any_card(document: Json) -> CardText:
    """Return a card in JSON or YAML of no known format: the keys that the others have."""
    known = _as_object(document)
    if "recordSet" in known:
        return read_croissant(known)
    if "resources" in known:
        return read_data_package(known)
    front = read_front_matter(known)
    listed = _feature_fields(known.get("features", known.get("fields")))
    return replace(
        front,
        title=front.title or _as_text(known.get("name")),
        tasks=front.tasks or _as_texts(known.get("tasks")),
        fields=front.fields or _distinct_fields(listed),
    )


# --- fields


def _feature_fields(features: Json) -> Iterator[Field]:
    """Features as `datasets` writes them: in YAML a list with names, in JSON an object by name."""
    if isinstance(features, dict):
        for name, kind in list(features.items())[:_MOST]:
            yield str(name), _kind_text(kind, _DEEPEST)
        return
    for feature in _as_list(features):
        if isinstance(feature, dict):
            name, description = _package_field(feature)
            yield name, description or _kind_text(feature, _DEEPEST)


def _package_field(package_field: Mapping[str, Json]) -> Field:
    kind, description = (
        _as_text(package_field.get("type")),
        _as_text(package_field.get("description")),
    )
    return _as_text(package_field.get("name")), ", ".join(
        part for part in (kind, description) if part
    )


def _croissant_field(croissant_field: Mapping[str, Json]) -> Field:
    named = _as_text(croissant_field.get("name")) or _as_text(croissant_field.get("@id"))
    kind = _as_text(next(iter(_as_list(croissant_field.get("dataType"))), "")).rpartition(":")[2]
    description = _as_text(croissant_field.get("description"))
    return named.rpartition("/")[2], ", ".join(part for part in (kind, description) if part)


def _kind_text(feature: Json, levels: int) -> str:
    """A feature's type in a few words: `string`, `list of {role string, content string}`."""
    if isinstance(feature, str):
        return feature
    if not levels:
        return "..."
    if isinstance(feature, list):
        if all(isinstance(member, dict) and "name" in member for member in feature):
            return _struct_kind(((_as_text(member["name"]), member) for member in feature), levels)
        return f"list of {_kind_text(feature[0], levels - 1)}"
    return _object_kind(_as_object(feature), levels)


def _object_kind(feature: Mapping[str, Json], levels: int) -> str:
    dtype = feature.get("dtype")
    if isinstance(dtype, str):
        return dtype
    for key in ("list", "sequence", "feature"):
        if key in feature:
            return f"list of {_kind_text(feature[key], levels - 1)}".rstrip(" .")
    inner = feature.get("struct", dtype)
    if inner is not None:
        return _kind_text(inner, levels - 1)
    if "_type" in feature:
        return _as_text(feature["_type"])
    rest = ((str(name), kind) for name, kind in feature.items() if name != "name")
    return _struct_kind(rest, levels)


def _struct_kind(members: Iterable[tuple[str, Json]], levels: int) -> str:
    members_text = [f"{name} {_kind_text(kind, levels - 1)}" for name, kind in list(members)[:8]]
    return "{" + ", ".join(members_text) + "}" if members_text else ""


def _distinct_fields(fields: Iterable[Field]) -> tuple[Field, ...]:
    """One description per name; of several the first that says something."""
    descriptions: dict[str, str] = {}
    for name, description in fields:
        if name and not descriptions.get(name):
            descriptions[name] = description
    return tuple(descriptions.items())


# --- values of any type


def _language_names(value: Json) -> tuple[str, ...]:
    """Codes or names; YAML reads the code of Norwegian as the opposite of true."""
    listed = (
        key
        for language in _as_list(value)
        for key in (language if isinstance(language, dict) else [language])
    )
    return tuple("no" if name is False else _as_text(name) for name in listed)


def _license_name(value: Json) -> str:
    """A license's name: a text, the first of a list, or an object that names it."""
    for license_entry in _as_list(value):
        known = _as_object(license_entry)
        license_name = _as_text(license_entry) or next(
            filter(None, map(_as_text, map(known.get, _NAME_KEYS))), ""
        )
        if license_name:
            return license_name
    return ""


_NAME_KEYS = ("name", "title", "path", "url", "@id")


def _as_object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value[:_MOST]
    return [] if value is None else [value]


def _as_texts(value: Json) -> tuple[str, ...]:
    return tuple(text for item in _as_list(value) if (text := _as_text(item)))


def _as_text(value: Json) -> str:
    if isinstance(value, str):
        return value.strip()
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number and abs(value) < _MOST_NUMBER else ""
