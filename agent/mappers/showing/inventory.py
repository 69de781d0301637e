"""The inventory of paths, a line each: types, how often filled, lengths, values and their looks."""

import re
from collections import Counter
from collections.abc import Sequence

from ingot.agent.mappers.rules.names import role_of, strength
from ingot.agent.mappers.rules.table import hits, last_name
from ingot.agent.mappers.showing.cleaning import bounded, clean, cut, shown_path
from ingot.agent.mappers.showing.rows import shared
from ingot.agent.mappers.showing.sizes import Size
from ingot.converters.paths import Node
from ingot.converters.profile import PathFacts, Profile, Spread
from ingot.converters.rows import Json

_ROLE_VALUES = 40  # different values of a field that says who speaks
_ROLE_CHARS = 40
_SHORT = 60
_TELLING = ("url", "email", "uuid", "hash", "number", "time", "file", "letter", "option", "json")
_FORMS = ("code", "question", "sentence", "prose", "word")
_YEAR = re.compile(r"(?:1[5-9]|2[01])\d\d")
_OFTEN = 0.5


def lines(rows: Sequence[Json], facts: Profile, size: Size, share: str) -> list[str]:
    """The inventory: paths in the order in which they first occur."""
    told = [one for one in facts.paths if _tells(one)]
    roles = {one.path: found for one in told if (found := role_values(rows, one))}
    made = [_line(one, roles.get(one.path), size, share) for one in told[: size.paths]]
    hidden = len(told) - size.paths + facts.cut
    return [*made, f"(+{hidden} paths)"] if hidden > 0 else made


def role_values(rows: Sequence[Json], facts: PathFacts) -> dict[str, int] | None:
    """Every value of a field that may say who speaks, with its count; None for other fields."""
    if not _may_speak(facts):
        return None
    counts: Counter[str] = Counter()
    for row in rows:
        found = hits(facts.path, Node(row))
        counts.update(value for value in found if isinstance(value, str) and value.strip())
    known = sum(role_of(value) is not None for value in counts)
    named = strength(last_name(facts.path), "speaker") >= 0.9
    return dict(counts.most_common()) if known >= 2 or (named and known) else None


def _may_speak(facts: PathFacts) -> bool:
    short = facts.chars is not None and facts.chars.high <= _ROLE_CHARS
    return short and 1 <= facts.distinct <= _ROLE_VALUES and not facts.unique


def _tells(facts: PathFacts) -> bool:
    """Whether a line says more than the lines of what stands inside."""
    plain = set(facts.types) == {"object"} and not facts.missing and not facts.note
    return not plain and facts.path != "$" if facts.types.get("object") else True


def _line(facts: PathFacts, roles: dict[str, int] | None, size: Size, share: str) -> str:
    parts = [_types(facts), *_filled(facts), *_sizes(facts, size)]
    parts += [f"says who: {told_roles(roles, share)}"] if roles else _values(facts, size, share)
    parts += _looks(facts, size) if not roles else []
    parts += [facts.note] if facts.note else []
    return f"{_named(facts.path, share)}: " + "; ".join(parts)


def _named(path: str, share: str) -> str:
    """A path as it can be copied; one that holds a secret cannot."""
    plain = shown_path(path)
    if share == "raw":
        return plain
    told = next(iter(shared({plain: None}, share)))
    return plain if told == plain else f"{told} (a name with a secret: cannot be addressed)"


def _types(facts: PathFacts) -> str:
    present = {name: count for name, count in facts.types.items() if name != "null"}
    if len(present) <= 1:
        return next(iter(present), "null")
    return " or ".join(f"{name} {count}" for name, count in present.items())


def _filled(facts: PathFacts) -> list[str]:
    """How often a value is there; missing, null and blank apart."""
    absent = {"missing": facts.missing, "null": facts.null, "blank": facts.blank}
    told = [f"{name} {count}" for name, count in absent.items() if count]
    whole = facts.places
    if not told or not whole:
        return [f"all {whole}"]
    return [f"filled {facts.filled} of {whole} ({', '.join(told)})"]


def _sizes(facts: PathFacts, size: Size) -> list[str]:
    parts = []
    if facts.items:
        parts.append(f"{_spread(facts.items, size)} elements")
    if facts.chars:
        parts.append(f"{_spread(facts.chars, size)} chars")
    if facts.numbers:
        parts.append(f"{facts.numbers.low:g}..{facts.numbers.high:g}")
    if facts.distinct > 1:
        parts.append("all different" if facts.unique else f"{facts.distinct} different")
    return parts


def _spread(spread: Spread, size: Size) -> str:
    ends = f"{spread.low:g}-{spread.high:g}"
    if spread.low == spread.high:
        return f"{spread.low:g}"
    return f"{spread.low:g}-{spread.middle:g}-{spread.high:g}" if size.words else ends


def told_roles(roles: dict[str, int], share: str) -> str:
    """Who speaks, with counts; with nothing shared only the known spellings of a role."""
    told = {v: n for v, n in roles.items() if share != "none" or role_of(v) is not None}
    parts = [f'"{_short(value, share)}" x{count}' for value, count in told.items()]
    hidden = len(roles) - len(told)
    return ", ".join([*parts, *([f"+{hidden} withheld"] if hidden else [])])


def _values(facts: PathFacts, size: Size, share: str) -> list[str]:
    """Values with their counts where they are few and come again."""
    if facts.unique or share == "none" or not size.values:
        return []
    few = [(value, count) for value, count in facts.values if len(str(value)) <= _SHORT]
    if not few:
        return []
    shown = [f"{_value(value, share)} x{count}" for value, count in few[: size.values]]
    more = len(facts.values) - len(shown)
    return ["values " + ", ".join([*shown, *([f"+{more}"] if more else [])])]


def _value(value: Json, share: str) -> str:
    return f'"{_short(value, share)}"' if isinstance(value, str) else str(value)


def _short(text: str, share: str) -> str:
    if share == "none":  # known spellings of roles only
        return text
    told = shared({"": bounded(text)}, share)[""]
    return cut(clean(str(told)).replace("\n", "\\n"), 30, 10)


def _looks(facts: PathFacts, size: Size) -> list[str]:
    if not facts.chars:
        return []
    telling = [look for look in _TELLING if facts.looks.get(look, 0) >= _OFTEN]
    parts = [f"{look}{_time_note(look, facts)}" for look in telling[:2]]
    if not telling and size.words:
        forms = [look for look in _FORMS if facts.looks.get(look, 0) >= _OFTEN][:1]
        parts += [f"{look} {facts.looks[look]:.0%}" for look in forms]
    scripts = {name: part for name, part in facts.scripts.items() if part >= 0.1}
    if set(scripts) - {"latin"}:
        parts.append("/".join(scripts))
    return [f"looks {', '.join(parts)}"] if parts else []


def _time_note(look: str, facts: PathFacts) -> str:
    if look != "time" or not facts.examples:
        return ""
    return "" if any(_YEAR.search(text) for text in facts.examples) else " (no year)"
