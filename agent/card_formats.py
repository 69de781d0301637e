"""What cards of the usual formats say, as plain facts: each format is read where it lies.

The documents come from strangers: whatever is not of the expected type counts as not said.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingot.agent.card_prose import Field
from ingot.converters.rows import Json

_DEEPEST = 4  # levels of a type that are told
_MOST = 200  # items of a list that are looked at
_MOST_NUMBER = 10**15  # digits of longer ones are no words, and cost


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What one document says, in its own words: not cleaned, not cut."""

    title: str = ""
    license: str = ""
    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    text: str = ""


def front_matter(document: Json) -> Said:
    """The YAML of a card as the Hugging Face Hub reads it."""
    known = _object(document)
    infos = [_object(one) for one in _many(known.get("dataset_info"))]
    return Said(
        title=_text(known.get("pretty_name")) or _text(known.get("title")),
        license=_license(known.get("license_name")) or _license(known.get("license")),
        languages=_languages(known.get("language", known.get("languages"))),
        tasks=_texts(known.get("task_categories")) + _texts(known.get("task_ids")),
        fields=_distinct(one for info in infos for one in _features(info.get("features"))),
        text=_text(known.get("description")),
    )


def dataset_infos(document: Json) -> Said:
    """`dataset_infos.json` (configurations by name) or `dataset_info.json` (one)."""
    known = _object(document)
    nested = [one for one in list(known.values())[:_MOST] if isinstance(one, dict)]
    infos = [known] if "features" in known else [one for one in nested if "features" in one]
    if not infos:
        return Said()
    return Said(
        license=next(filter(None, (_license(one.get("license")) for one in infos)), ""),
        fields=_distinct(each for one in infos for each in _features(one.get("features"))),
        text=next(filter(None, (_text(one.get("description")) for one in infos)), ""),
    )


def croissant(document: Json) -> Said:
    """Croissant's JSON-LD: record sets with fields."""
    known = _object(document)
    records = [_object(one) for one in _many(known.get("recordSet"))]
    found = (_object(field) for one in records for field in _many(one.get("field")))
    return Said(
        title=_text(known.get("name")),
        license=_license(known.get("license")),
        languages=_languages(known.get("inLanguage")),
        fields=_distinct(map(_croissant_field, found)),
        text=_text(known.get("description")),
    )


def data_package(document: Json) -> Said:
    """A Frictionless data package: resources with schemas."""
    known = _object(document)
    schemas = (_object(_object(one).get("schema")) for one in _many(known.get("resources")))
    found = (_object(field) for one in schemas for field in _many(one.get("fields")))
    return Said(
        title=_text(known.get("title")) or _text(known.get("name")),
        license=next(filter(None, map(_license, _many(known.get("licenses")))), ""),
        languages=_languages(known.get("languages", known.get("language"))),
        fields=_distinct(map(_named_field, found)),
        text=_text(known.get("description")),
    )


def any_card(document: Json) -> Said:
    """A card in JSON or YAML of no known format: the keys that the others have."""
    known = _object(document)
    if "recordSet" in known:
        return croissant(known)
    if "resources" in known:
        return data_package(known)
    said = front_matter(known)
    title = said.title or _text(known.get("name"))
    found = _features(known.get("features", known.get("fields")))
    return Said(
        title=title,
        license=said.license,
        languages=said.languages,
        tasks=said.tasks or _texts(known.get("tasks")),
        fields=said.fields or _distinct(found),
        text=said.text,
    )


# --- fields


def _features(found: Json) -> Iterator[Field]:
    """Features as `datasets` writes them: in YAML a list with names, in JSON an object by name."""
    if isinstance(found, dict):
        for name, kind in list(found.items())[:_MOST]:
            yield str(name), _kind(kind, _DEEPEST)
        return
    for one in _many(found):
        if isinstance(one, dict):
            name, said = _named_field(one)
            yield name, said or _kind(one, _DEEPEST)


def _named_field(one: Mapping[str, Json]) -> Field:
    kind, said = _text(one.get("type")), _text(one.get("description"))
    return _text(one.get("name")), ", ".join(part for part in (kind, said) if part)


def _croissant_field(one: Mapping[str, Json]) -> Field:
    named = _text(one.get("name")) or _text(one.get("@id"))
    kind = _text(next(iter(_many(one.get("dataType"))), "")).rpartition(":")[2]
    said = _text(one.get("description"))
    return named.rpartition("/")[2], ", ".join(part for part in (kind, said) if part)


def _kind(found: Json, levels: int) -> str:
    """A feature's type in a few words: `string`, `list of {role string, content string}`."""
    if isinstance(found, str):
        return found
    if not levels:
        return "..."
    if isinstance(found, list):
        return _kind_of_list(found, levels)
    return _kind_of_object(_object(found), levels)


def _kind_of_list(found: list[Json], levels: int) -> str:
    if all(isinstance(one, dict) and "name" in one for one in found):
        return _struct(((_text(one["name"]), one) for one in found), levels)
    return f"list of {_kind(found[0], levels - 1)}"


def _kind_of_object(found: Mapping[str, Json], levels: int) -> str:
    dtype = found.get("dtype")
    if isinstance(dtype, str):
        return dtype
    for key in ("list", "sequence", "feature"):
        if key in found:
            return f"list of {_kind(found[key], levels - 1)}".rstrip(" .")
    inner = found.get("struct", dtype)
    if inner is not None:
        return _kind(inner, levels - 1)
    if "_type" in found:
        return _text(found["_type"])
    rest = ((str(name), kind) for name, kind in found.items() if name != "name")
    return _struct(rest, levels)


def _struct(members: Iterable[tuple[str, Json]], levels: int) -> str:
    told = [f"{name} {_kind(kind, levels - 1)}" for name, kind in list(members)[:8]]
    return "{" + ", ".join(told) + "}" if told else ""


def _distinct(found: Iterable[Field]) -> tuple[Field, ...]:
    """One description per name; of several the first that says something."""
    kept: dict[str, str] = {}
    for name, said in found:
        if name and not kept.get(name):
            kept[name] = said
    return tuple(kept.items())


# --- values of any type


def _languages(found: Json) -> tuple[str, ...]:
    """Codes or names; YAML reads the code of Norwegian as the opposite of true."""
    listed = (key for one in _many(found) for key in (one if isinstance(one, dict) else [one]))
    return tuple("no" if one is False else _text(one) for one in listed)


def _license(found: Json) -> str:
    """A license's name: a text, the first of a list, or an object that names it."""
    for one in _many(found):
        known = _object(one)
        said = _text(one) or next(filter(None, map(_text, map(known.get, _NAMES))), "")
        if said:
            return said
    return ""


_NAMES = ("name", "title", "path", "url", "@id")


def _object(found: Json) -> Mapping[str, Json]:
    return found if isinstance(found, dict) else {}


def _many(found: Json) -> list[Json]:
    """A list, or what stands where a list could."""
    if isinstance(found, list):
        return found[:_MOST]
    return [] if found is None else [found]


def _texts(found: Json) -> tuple[str, ...]:
    return tuple(text for one in _many(found) if (text := _text(one)))


def _text(found: Json) -> str:
    if isinstance(found, str):
        return found.strip()
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return str(found) if number and abs(found) < _MOST_NUMBER else ""
