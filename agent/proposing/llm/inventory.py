"""The inventory of paths, a line each, and the rows that a model is shown, at a ladder of sizes."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingot.agent.privacy import Safe, SafeValue, redaction
from ingot.agent.privacy.redaction import MOST_NAME_CHARS
from ingot.agent.proposing.columns import NO_TEXT, last_name, total_chars, values_at
from ingot.agent.proposing.names import flags_bad_rows, name_group, name_strength, speaker_role
from ingot.converters.paths import Node
from ingot.converters.rows import Json
from ingot.converters.sources.profile import FEW_VALUES, PathFacts, Profile, Spread, keys_are_data


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One size: `head` and `tail` in characters, the others in lines; `words` = lines say all."""

    rows: int
    head: int
    tail: int
    elements: int
    values: int
    paths: int
    facts: int
    lines: int
    roots: int
    words: bool = True


_FULL_SIZES = (
    Size(rows=5, head=300, tail=100, elements=3, values=8, paths=150, facts=30, lines=4, roots=4),
    Size(rows=5, head=200, tail=70, elements=3, values=8, paths=150, facts=30, lines=4, roots=4),
    Size(rows=4, head=160, tail=60, elements=3, values=8, paths=120, facts=24, lines=3, roots=3),
    Size(rows=4, head=120, tail=40, elements=3, values=6, paths=120, facts=24, lines=3, roots=3),
    Size(rows=3, head=90, tail=30, elements=3, values=6, paths=100, facts=20, lines=3, roots=3),
    Size(rows=3, head=60, tail=25, elements=2, values=5, paths=90, facts=16, lines=3, roots=2),
    Size(rows=2, head=60, tail=20, elements=2, values=5, paths=80, facts=14, lines=2, roots=2),
)
_POOR_SIZES = (
    Size(rows=2, head=40, tail=16, elements=2, values=4, paths=60, facts=12, lines=2, roots=2),
    Size(rows=2, head=28, tail=12, elements=2, values=3, paths=50, facts=10, lines=2, roots=1),
    Size(rows=1, head=40, tail=16, elements=2, values=3, paths=40, facts=9, lines=1, roots=1),
    Size(rows=1, head=24, tail=10, elements=2, values=3, paths=40, facts=8, lines=1, roots=1),
    Size(rows=1, head=16, tail=8, elements=2, values=2, paths=36, facts=7, lines=1, roots=1),
    Size(rows=1, head=12, tail=6, elements=1, values=2, paths=30, facts=6, lines=1, roots=0),
    Size(rows=1, head=8, tail=4, elements=1, values=1, paths=24, facts=5, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=1, paths=24, facts=4, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=18, facts=3, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=14, facts=3, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=14, facts=1, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=10, facts=1, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=6, facts=0, lines=0, roots=0),
)


def size_ladder(*, small: bool) -> tuple[Size, ...]:
    """Return the sizes to try, rich ones first; with `small` inventory lines are terse."""
    if not small:
        return (*_FULL_SIZES, *_POOR_SIZES)
    return tuple(replace(size, words=False) for size in (*_FULL_SIZES[-4:], *_POOR_SIZES))


MOST_KEYS = 60
MOST_DEPTH = 10


def keys_are_data_in(value: dict[str, Json]) -> bool:
    """Return whether the keys of one object are data: numbered turns, or many ids."""
    kinds = {type(inside) for inside in value.values()} - {type(None)}
    one_shape = len(kinds) == 1 and kinds <= {dict, list}
    return len(value) > 3 and keys_are_data(Counter(value.keys()), 1, one_shape)


def render_value(value: SafeValue, size: Size, share: str) -> Safe:
    """Return a value as one line of JSON, cut; invisible signs in a key are escaped."""
    kept = cut_value(value.json, size, share)
    return Safe(redaction.escape_hidden(json.dumps(kept, ensure_ascii=False, default=str)))


def cut_value(value: Json, size: Size, share: str, around: tuple[frozenset[str], ...] = ()) -> Json:
    """Cut a redacted value to its shape; with share `none` nothing of it is left."""
    if isinstance(value, dict | list) and len(around) >= MOST_DEPTH:
        return f"(+{len(value)} inside)"
    if isinstance(value, list):
        most = size.elements + (not any(isinstance(one, dict | list) for one in value))
        inside = (*around, frozenset[str]())
        kept = [cut_value(one, size, share, inside) for one in value[:most]]
        return [*kept, f"(+{len(value) - most} more)"] if len(value) > most else kept
    if isinstance(value, dict):
        return _cut_fields(value, size, share, around)
    if share == "none":
        return redaction.value_shapes(value)
    if not isinstance(value, str):
        return value
    return redaction.cut_middle(
        redaction.clean_text(redaction.bound_text(value)), size.head, size.tail, len(value)
    )


def _cut_fields(
    value: dict[str, Json], size: Size, share: str, around: tuple[frozenset[str], ...]
) -> Json:
    keys = frozenset(value)
    if len(keys) > 1 and around.count(keys) >= (2 if size.words else 1):
        return f"(same shape, depth {_nesting_depth(value, keys)} from here)"
    data = keys_are_data_in(value)
    most = size.elements if data else MOST_KEYS
    made = {
        _shown_key(key, number, share, data=data): cut_value(inside, size, share, (*around, keys))
        for number, (key, inside) in enumerate([*value.items()][:most], 1)
    }
    return made | ({"...": f"(+{len(value) - most} keys)"} if len(value) > most else {})


def _shown_key(key: str, number: int, share: str, *, data: bool) -> str:
    if data and share == "none":
        return f"<key {number}>"
    return key if len(key) <= MOST_NAME_CHARS else redaction.display_name(key)


def _nesting_depth(value: Json, keys: frozenset[str]) -> int:
    """How deep objects with these keys stand inside each other, counting the outermost."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    deepest = max((_nesting_depth(one, keys) for one in inside), default=0)
    return deepest + (isinstance(value, dict) and frozenset(value) == keys)


_ROLE_VALUES = 40  # different values of a field that says who speaks
_ROLE_CHARS = 40
_AGAIN = 3  # times that each of many speakers speaks
_SHORT = 60
_LABELS = 5  # different values of a label that are told however little room there is
LONG_NUMBER = re.compile(r"\d\D?\d\D?\d\D?\d")
_SHOWN_LOOKS = name_group("shown_looks")
_FORMS = ("code", "question", "sentence", "prose", "word")
_LONGEST_HEAD = 4_000  # characters of a path in which paths around it are looked for
_YEAR = re.compile(r"(?:1[5-9]|2[01])\d\d")
_OFTEN, _FEW = 0.5, 0.1
_ID_LOOKS = ("time", "uuid", "hash", "email")
_PLACES = ("id", "foreign_id", "order", "time")
_KINDS = (
    *("speakers", "texts", "ids or times", "labels", "lists"),
    *("flags", "numbers", "constants", "lists around others"),
)


def inventory_lines(rows: Sequence[Json], facts: Profile, size: Size, share: str) -> list[str]:
    """Return the paths in the order of the fields; of too many, the most telling ones."""
    told = [one for one in _order_paths(facts.paths) if _needs_line(one)]
    roles = {one.path: found for one in told if (found := role_values(rows, one))}
    empty = [one for one in told if not one.filled or (one.items and not one.items.high)]
    fixed = [one for one in told if one.distinct == 1 and _is_fixed(one)]
    fixed = [one for one in fixed if not any(map(speaker_role, roles.get(one.path, ())))]
    folded = {one.path for one in (*empty, *fixed)}
    ranges = [] if size.words else [one for one in told if _is_measure(one, roles)]
    folded |= {one.path for one in ranges}
    kinds = {one.path: _path_kind(one, roles.get(one.path, {})) for one in told}
    heads = {head for one in told for head in _paths_around(one.path)}
    kinds |= {one: "lists around others" for one in heads if kinds.get(one) == "lists"}
    open_ones = [one for one in told if one.path not in folded]
    kept = _choose_paths(open_ones, kinds, size.paths)
    made = [_path_line(one, kinds[one.path], roles.get(one.path), size, share) for one in kept]
    hidden = Counter(kinds[one.path] for one in open_ones)
    hidden.subtract(kinds[one.path] for one in kept)
    made += _hidden_line(hidden, facts.cut)
    made += _names_line("numbers", _range_texts(ranges, fixed, share), 2 * size.paths, "; ")
    fixed.sort(key=lambda one: _KINDS.index(kinds[one.path]))
    most = size.paths if size.words else size.paths // 2
    made += _names_line("the same in all rows", _fixed_values(fixed, size, share), most, "; ")
    bare = [redaction.share_path(one.path, share) for one in empty]
    return made + _names_line("empty in all rows", bare, size.paths // 2, ", ")


def _path_kind(facts: PathFacts, roles: dict[str, int]) -> str:
    """What a path holds, by what a mapping may need it for."""
    name, looks = last_name(facts.path), facts.looks
    if any(map(speaker_role, roles)):
        return "speakers"
    odd = next((look for look in (*NO_TEXT, "letter") if looks.get(look, 0.0) >= _OFTEN), "")
    phrases = facts.distinct > FEW_VALUES or looks.get("word", 0.0) < _OFTEN
    if facts.chars and (looks.get("prose", 0.0) >= _FEW or (phrases and not odd)):
        return "texts"
    place = odd in _ID_LOOKS or any(name_strength(name, slot) >= 0.8 for slot in _PLACES)
    if facts.distinct > 1 and place:
        return "ids or times"
    if facts.items or "object" in facts.types:
        return "lists"
    if facts.distinct <= 1:
        return "constants"
    if "boolean" in facts.types:
        return "labels" if flags_bad_rows(name) else "flags"
    many = facts.distinct > _LABELS
    return "numbers" if facts.numbers or (odd == "number" and many) else "labels"


def _hidden_line(hidden: Counter[str], cut: int) -> list[str]:
    """How many paths have no line, by their kind."""
    told = [f"{hidden[kind]} {kind}" for kind in _KINDS if hidden[kind]]
    told += [f"{cut} not looked at"] if cut else []
    return [f"(+{hidden.total() + cut} paths: {', '.join(told)})"] if told else []


def _is_measure(facts: PathFacts, roles: dict[str, dict[str, int]]) -> bool:
    """Whether numbers are measures: no ids, no labels of which there are few."""
    kinds = set(facts.types) - {"null"}
    many = facts.distinct > FEW_VALUES and not facts.unique
    measured = kinds <= ({"number", "integer"} if many else {"number"})
    return bool(kinds) and facts.path not in roles and measured


def _range_texts(ranges: Sequence[PathFacts], fixed: Sequence[PathFacts], share: str) -> list[str]:
    return [
        redaction.share_path(one.path, share)
        + (f" {one.numbers.low:.3g}..{one.numbers.high:.3g}" if share != "none" else "")
        for one in ranges
        if one.numbers and one not in fixed
    ]


def _order_paths(paths: Sequence[PathFacts]) -> list[PathFacts]:
    """Paths behind the paths that they lie in, however late they first occur."""
    place = {one.path: number for number, one in enumerate(paths)}

    def key(one: PathFacts) -> tuple[int, ...]:
        heads = [head for head in _paths_around(one.path) if head in place]
        return (*(place[head] for head in heads), place[one.path])

    return sorted(paths, key=key)


def _paths_around(path: str) -> list[str]:
    """The beginnings of a path at which a path may end, short ones first."""
    return [path[:n] for n, c in enumerate(path[:_LONGEST_HEAD]) if c in ".["]


def _choose_paths(paths: Sequence[PathFacts], kinds: dict[str, str], most: int) -> list[PathFacts]:
    """At most `most` paths: of the kind that a mapping needs first, then those with much text."""

    def rank(one: PathFacts) -> tuple[int, float, int]:
        return _KINDS.index(kinds[one.path]), -total_chars(one), one.path.count("[")

    kept = {one.path for one in sorted(paths, key=rank)[:most]}
    return [one for one in paths if one.path in kept]


def _is_fixed(facts: PathFacts) -> bool:
    """Whether one short value stands in all places, so that it needs no line of its own."""
    short = all(len(str(value)) <= _SHORT for value, _ in facts.values)
    return short and facts.filled == facts.places and bool(facts.values)


def _fixed_values(fixed: Sequence[PathFacts], size: Size, share: str) -> list[str]:
    told = [redaction.share_path(one.path, share) for one in fixed]
    if share == "none" or not size.values:
        return told
    values = (_value_text(one, one.values[0][0]) for one in fixed)
    return [f"{path} = {value}" for path, value in zip(told, values, strict=True)]


def _names_line(label: str, names: list[str], most: int, sign: str) -> list[str]:
    """One line with the first of some names and how many more there are; none without names."""
    kept = names[: max(1, most // 3)]
    more = [f"+{len(names) - len(kept)}"] if len(names) > len(kept) else []
    return [f"{label}: {sign.join([*kept, *more])}"] if names else []


def role_values(rows: Sequence[Json], facts: PathFacts) -> dict[str, int] | None:
    """Return the values of a field that may name speakers, with counts; None for other fields."""
    short = facts.chars is not None and facts.chars.high <= _ROLE_CHARS
    if not (short and 1 <= facts.distinct <= _ROLE_VALUES and not facts.unique):
        return None
    counts: Counter[str] = Counter()
    for row in rows:
        found = values_at(facts.path, Node(row))
        counts.update(value for value in found if isinstance(value, str) and value.strip())
    known = sum(speaker_role(value) is not None for value in counts)
    named = name_strength(last_name(facts.path), "speaker") >= 0.9
    if len(counts) > FEW_VALUES and sum(counts.values()) < _AGAIN * len(counts):
        return None
    few = named and (known or len(counts) <= FEW_VALUES)
    return dict(counts.most_common()) if known >= 2 or few else None


def _needs_line(facts: PathFacts) -> bool:
    """Whether a line says more than the lines of what stands inside."""
    plain = set(facts.types) == {"object"} and not facts.missing and not facts.note
    return not plain and facts.path != "$" if facts.types.get("object") else True


def _path_line(
    facts: PathFacts, kind: str, roles: dict[str, int] | None, size: Size, share: str
) -> str:
    values, every = _value_note(facts, kind, roles, size, share)
    parts = [*_type_notes(facts, size), *_fill_notes(facts, size)]
    parts += _size_notes(facts, size, share, counted=every)
    parts += [values] if values else []
    parts += [] if roles else _look_notes(facts, size)
    parts += [facts.note] if facts.note else []
    return f"{redaction.share_path(facts.path, share)}: " + "; ".join(parts)


def _type_notes(facts: PathFacts, size: Size) -> list[str]:
    """The types; where words are few a text is not called one."""
    present = {name: count for name, count in facts.types.items() if name != "null"}
    if len(present) > 1:
        return [" or ".join(f"{name} {count}" for name, count in present.items())]
    return list(present) if size.words or set(present) != {"string"} else []


def _fill_notes(facts: PathFacts, size: Size) -> list[str]:
    """How often a value is there; missing, null and blank apart."""
    absent = {"missing": facts.missing, "null": facts.null, "blank": facts.blank}
    told = [f"{name} {count}" for name, count in absent.items() if count]
    whole = facts.places
    if not told or not whole:
        return [f"all {whole}"] if size.words else []
    return [f"filled {facts.filled} of {whole} ({', '.join(told)})"]


def _size_notes(facts: PathFacts, size: Size, share: str, *, counted: bool) -> list[str]:
    parts = []
    if facts.items:
        parts.append(f"{_spread_text(facts.items, size)} elements")
    if facts.chars:
        parts.append(f"{_spread_text(facts.chars, size)} chars")
    if facts.numbers and share != "none":
        parts.append(f"{facts.numbers.low:g}..{facts.numbers.high:g}")
    if facts.distinct > 1 and not counted:
        parts.append("all different" if facts.unique else f"{facts.distinct} different")
    if facts.distinct == 1 and facts.filled > 1 and not counted:
        parts.append("always the same")
    return parts


def _spread_text(spread: Spread, size: Size) -> str:
    if spread.low == spread.high:
        return f"{spread.low:g}"
    return f"{spread.low:g}-{f'{spread.middle:g}-' if size.words else ''}{spread.high:g}"


def role_shares(counts: Counter[str], share: str, most: int = _ROLE_VALUES) -> str:
    """Return who speaks, with shares; if nothing is shared, only known spellings of a role."""
    told = {v: n for v, n in counts.items() if share != "none" or _is_plain_role(v)}
    first = Counter(told).most_common(most)
    parts = [f'"{short_text(v)}"{_share_note(n, counts.total())}' for v, n in first]
    parts += [f"+{len(told) - len(first)}"] if len(told) > len(first) else []
    hidden = len(counts) - len(told)
    return ", ".join([*parts, *([f"+{hidden} withheld"] if hidden else [])])


def _is_plain_role(text: str) -> bool:
    """Whether a text is the name of a role, without a number that says who that is."""
    return speaker_role(text) is not None and not LONG_NUMBER.search(text)


def _share_note(count: int, whole: int) -> str:
    """A share of all values, none for the only one."""
    return "" if count == whole else f" {count / whole:.0%}" if count * 100 > whole else " <1%"


def _value_note(
    facts: PathFacts, kind: str, roles: dict[str, int] | None, size: Size, share: str
) -> tuple[str, bool]:
    """Note all speakers and labels that are few, of numbers all or none; whether that is all."""
    if roles:
        return f"every value: {role_shares(Counter(roles), share)}", True
    label = kind in ("texts", "labels", "flags", "constants")
    most = max(size.values, _LABELS) if label else size.values
    if len(facts.values) > most:
        most = size.values if label else 0
    if facts.unique or share == "none":
        return "", False
    shown = [
        _value_text(facts, value) + _share_note(count, facts.filled)
        for value, count in facts.values
        if len(str(value)) <= _SHORT
    ][:most]
    more = len(facts.values) - len(shown)
    ends = [f"+{more}"] if more else []
    text = f"{'values' if more else 'every value:'} {', '.join([*shown, *ends])}"
    return (text, not more) if shown else ("", False)


def _value_text(facts: PathFacts, value: Json) -> str:
    if not isinstance(value, str):
        return str(value)
    if facts.types.get("boolean") and not facts.types.get("string"):
        return value  # as JSON spells it, since conditions compare by type
    return f'"{short_text(value)}"'


def short_text(text: str) -> str:
    """Return a redacted value in one short line."""
    return redaction.cut_middle(
        redaction.clean_text(redaction.bound_text(text)).replace("\n", "\\n"), 30, 10
    )


def _look_notes(facts: PathFacts, size: Size) -> list[str]:
    if not facts.chars:
        return []
    telling = [look for look in _SHOWN_LOOKS if facts.looks.get(look, 0) >= _OFTEN]
    parts = [f"{look}{_time_note(look, facts)}" for look in telling[:2]]
    if not telling:
        forms = [look for look in _FORMS if facts.looks.get(look, 0) >= _OFTEN][:1]
        parts += [f"{look} {facts.looks[look]:.0%}" for look in forms if size.words]
        latin = set(facts.scripts) <= {"latin"}  # others write sentences without blanks
        parts += ["word"] if forms == ["word"] and facts.unique and latin and not parts else []
    scripts = {name: part for name, part in facts.scripts.items() if part >= 0.1}
    if set(scripts) - {"latin"}:
        parts.append("/".join(scripts))
    return [f"looks {', '.join(parts)}"] if parts else []


def _time_note(look: str, facts: PathFacts) -> str:
    if look != "time" or not facts.examples:
        return ""
    return "" if any(_YEAR.search(text) for text in facts.examples) else " (no year)"
