"""What names of fields and speakers mean, by the tables of aliases.json."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files

from ingot.converters.rows import Json

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BREAK = re.compile(r"[\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LATIN_TAIL = re.compile(r"(?<![a-z])[a-z]{2,}+$")
_VAGUE = ("text", "content", "str", "string", "body", "value", "raw")
_LONGEST = 200  # characters of a name: what is longer is a text and means nothing
_TAIL_NUMBER = re.compile(r"_?(?<!\d)\d++$")
_TAIL_SIDE = re.compile(r"_?(?<!\d)\d++$|_[ab]$")
_HEAD_NUMBER = re.compile(r"^\d++_")

# How far a name says what a field is (`name_strength`): likely, clearly, in plain words.
NAMED, CLEAR, PLAIN = 0.8, 0.9, 0.95


@lru_cache(maxsize=1)
def alias_tables() -> dict[str, Json]:
    """Return the alias file."""
    text = files("ingot.agent.proposing").joinpath("aliases.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def name_group(group: str) -> tuple[str, ...]:
    """Return the names of a group of the alias file."""
    return tuple(alias_tables()["groups"][group])


@cache
def _spelt_names(table: str) -> dict[str, frozenset[str]]:
    """The names of each entry of a table, as they are compared."""
    entries = alias_tables()[table].items()
    return {entry: frozenset(map(spell_name, names)) for entry, names in entries}


def verdict_of(value: str) -> str:
    """Return whether a value calls its row `good`, `bad` or `gone` (deleted, a draft), else ""."""
    spelling = spell_name(value[:_LONGEST])
    known = _spelt_names("verdicts")
    return next((kind for kind in ("good", "bad", "gone") if spelling in known[kind]), "")


_TRUTHS = {
    **dict.fromkeys(("1", "true", "yes"), True),
    **dict.fromkeys(("0", "false", "no"), False),
}


def truth_of(value: str) -> bool | None:
    """Return what a value says that stands for true or false, None for any other."""
    return _TRUTHS.get(value.strip().lower())


def says_yes(value: str) -> bool | None:
    """Return the same of yes and no in any language of the tables."""
    spelt = value.strip().casefold()
    return True if spelt in name_group("yes") else False if spelt in name_group("no") else None


def spells_truth(table: dict[str, Json]) -> bool:
    """Return whether a table only says true and false in the words of a language."""
    truths = {truth_of(value): becomes for value, becomes in table.items()}
    pairs = [
        dict(zip((True, False), words, strict=True)) for words in alias_tables()["truth"].values()
    ]
    return bool(truths) and any(truths.items() <= pair.items() for pair in pairs)


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """Return every word of the tables of names."""
    names = [*_texts_of(alias_tables())]
    return frozenset(word for name in names for word in spell_name(name).split("_"))


def _texts_of(table: Json) -> Iterator[str]:
    if isinstance(table, str):
        yield table
    elif isinstance(table, list | dict):
        yield from table if isinstance(table, dict) else ()
        for content in table.values() if isinstance(table, dict) else table:
            yield from _texts_of(content)


def flags_bad_rows(name: str) -> bool:
    """Return whether a field of yes and no is true of rows that are not to be used (`deleted`)."""
    return spell_name(name[:_LONGEST]) in _spelt_names("verdicts")["flags"]


def left_out_values(name: str, values: Iterable[str]) -> list[str]:
    """Return the values of a field of the turns that mark those nobody says to the other side."""
    tables, spelt = _spelt_names("turns_left_out"), spell_name(name[:_LONGEST])
    left_out = [v for v in values if spell_name(v[:_LONGEST]) in tables["values"]]
    truths = {v.lower(): v for v in values}
    if set(truths) <= {"true", "false"} and spelt in tables["flags"]:
        return [truths["true"]] if "true" in truths else []
    if set(truths) <= {"true", "false"} and spelt in tables["shown"]:
        return [truths["false"]] if "false" in truths else []
    return left_out


@lru_cache(maxsize=8192)
def spell_name(name: str) -> str:
    """Return a name as the tables spell it: lower case, words joined by underscores."""
    parts = [part for part in _BREAK.split(_CAMEL.sub("_", name)) if part]
    return "_".join(parts).lower()


def _partial_strength(name: str, aliases: frozenset[str]) -> float:
    """How well a part of a name of several words is an alias: the last words count most."""
    words = name.split("_")
    if words[-1] in _VAGUE and "_".join(words[:-1]) in aliases:
        return 0.9
    for start in range(1, len(words)):
        if (tail := "_".join(words[start:])) in aliases:
            return 0.8 if len(tail) > 1 else 0.4
    for end in range(len(words) - 1, 0, -1):
        if "_".join(words[:end]) in aliases and len("_".join(words[:end])) > 1:
            return 0.5
    if any(word in aliases and len(word) > 2 for word in words[1:-1]):
        return 0.5
    return 0.0


def _partial_strength_cjk(name: str, aliases: frozenset[str]) -> float:
    tail = _LATIN_TAIL.search(name)
    if tail and tail.group() in aliases:  # `作品ID`
        return 0.8
    best = max((len(a) for a in aliases if len(a) > 1 and _CJK.match(a) and a in name), default=0)
    ends = best and name.endswith(tuple(a for a in aliases if len(a) == best))
    return 0.8 if ends else 0.6 * bool(best)


@lru_cache(maxsize=65536)
def name_strength(name: str, slot: str) -> float:
    """Return how far a field's name says that it is a `slot` of the tables, 0..1."""
    if len(name) > _LONGEST:
        return 0.0
    aliases = _spelt_names("slots")[slot]
    spelling = spell_name(name)
    if spelling in aliases:
        return 1.0
    if _CJK.search(spelling):
        return _partial_strength_cjk(spelling, aliases)
    bare = _TAIL_SIDE.sub("", spelling)
    if bare and bare != spelling and bare in aliases:
        return 0.7
    if spelling.endswith("s") and spelling[:-1] in aliases:
        return 0.9
    return _partial_strength(spelling, aliases)


@cache
def _spelt_aliases(table: str) -> dict[str, str]:
    """What each alias of a table stands for."""
    meanings = alias_tables()[table].items()
    return {spell_name(name): meaning for meaning, names in meanings for name in names}


@lru_cache(maxsize=4096)
def speaker_role(value: str) -> str | None:
    """Return the role of a speaker's name: user, assistant, system, tool, `drop` or None."""
    if len(value) > _LONGEST:
        return None
    spelling = spell_name(value)
    roles = _spelt_aliases("roles")
    bare = _TAIL_NUMBER.sub("", _HEAD_NUMBER.sub("", spelling))
    return roles.get(spelling) or (roles.get(bare) if bare else None)


@lru_cache(maxsize=4096)
def language_code(value: str) -> str | None:
    """Return the ISO 639-1 code of a language's name or code, None if it is neither."""
    if len(value) > _LONGEST:
        return None
    spelling = spell_name(value)
    known = _spelt_aliases("languages")
    return known.get(spelling) or known.get(spelling.split("_")[0])
