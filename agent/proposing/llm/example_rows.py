"""Choose and cut the rows that a model is shown, at a ladder of sizes from rich to poor."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.agent.privacy.redaction import (
    MOST_NAME_CHARS,
    bound_text,
    clean_text,
    cut_middle,
    display_name,
    escape_hidden,
    share_text,
    share_value,
)
from ingot.agent.proposing.field_names import name_strength
from ingot.converters.rows import Json
from ingot.converters.sources.profile import keys_are_data, pick_evenly


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One size.

    Attributes:
        head, tail: characters of a text.
        values: values with counts per path, where they name no roles.
        roots: places of rows in a JSON object, beside the one that is shown.
        words: whether an inventory line says looks, scripts and spreads in full.
    """

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
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=14, facts=3, lines=0, roots=0),
    Size(rows=0, head=8, tail=4, elements=1, values=0, paths=6, facts=0, lines=0, roots=0),
)


def size_ladder(*, small: bool) -> tuple[Size, ...]:
    """The sizes to try, rich ones first; with `small` inventory lines are terse."""
    if not small:
        return (*_FULL_SIZES, *_POOR_SIZES)
    return tuple(replace(size, words=False) for size in (*_FULL_SIZES[-4:], *_POOR_SIZES))


MOST_KEYS = 60
MOST_DEPTH = 10
_SEEN_ELEMENTS = 60  # elements of a list that are looked at for the shapes of a row
_AT_LEAST = 3  # rows that are shown although fewer cover all shapes
_SPEAKER = 40  # characters of a name of who speaks

Feature = tuple[str, str]


def choose_rows(rows: Sequence[Json], most: int) -> list[int]:
    """Numbers of at most `most` rows that cover the most shapes, and speakers; most telling first.

    A shape is a path with a JSON type (blank texts are one of their own), or with the name of who
    speaks there. The same rows give the same choice.
    """
    left = [frozenset(_row_features(row, "", 0)) for row in rows]
    picked: list[int] = []
    seen: set[Feature] = set()
    while len(picked) < min(most, len(rows)):
        gains = [len(features - seen) for features in left]
        best = max(range(len(rows)), key=lambda number: (gains[number], -number))
        if not gains[best]:
            break
        picked.append(best)
        seen |= left[best]
    wanted = min(most, _AT_LEAST, len(rows))
    others = [number for number in range(len(rows)) if number not in picked]
    picked += pick_evenly(others, wanted - len(picked)) if wanted > len(picked) else []
    return picked


def _row_features(value: Json, path: str, depth: int) -> Iterator[Feature]:
    if isinstance(value, dict) and depth < MOST_DEPTH:
        yield path, "object"
        data = keys_are_data_in(value)
        for key, inside in value.items():
            yield from _row_features(inside, f"{path}.*" if data else f"{path}.{key}", depth + 1)
    elif isinstance(value, list) and depth < MOST_DEPTH:
        yield path, "list" if value else "empty list"
        for inside in value[:_SEEN_ELEMENTS]:
            yield from _row_features(inside, f"{path}[*]", depth + 1)
    elif isinstance(value, str):
        yield path, "text" if value.strip() else "blank"
        if len(value) <= _SPEAKER and name_strength(path.rsplit(".", 1)[-1], "speaker") >= 1:
            yield path, f"says {value}"
    else:
        yield path, type(value).__name__


def keys_are_data_in(value: dict[str, Json]) -> bool:
    """Whether the keys of one object are data: numbered turns, or many ids."""
    kinds = {type(inside) for inside in value.values()} - {type(None)}
    one_shape = len(kinds) == 1 and kinds <= {dict, list}
    return len(value) > 3 and keys_are_data(Counter(value.keys()), 1, one_shape)


def render_value(value: Json, size: Size, share: str) -> str:
    """A value as one line of JSON, cut; what is invisible in a key stands as its escape."""
    return escape_hidden(json.dumps(cut_value(value, size, share), ensure_ascii=False, default=str))


def cut_value(value: Json, size: Size, share: str) -> Json:
    """A value that keeps its shape: keys (60), first elements, heads and tails of texts.

    Secrets are taken out before anything is cut; with share `none` no value is left.
    """
    return _cut_under_key(value, size, share)


def _cut_under_key(
    value: Json,
    size: Size,
    share: str,
    around: tuple[frozenset[str], ...] = (),
    name: str = "",
) -> Json:
    """A value under its key (that of the list, in a list); `around` are the objects around it."""
    if isinstance(value, dict | list) and len(around) >= MOST_DEPTH:
        return f"(+{len(value)} inside)"
    if isinstance(value, list):
        most = size.elements + (not any(isinstance(one, dict | list) for one in value))
        inside = (*around, frozenset[str]())
        kept = [_cut_under_key(one, size, share, inside, name) for one in value[:most]]
        return [*kept, f"(+{len(value) - most} more)"] if len(value) > most else kept
    if isinstance(value, dict):
        return _cut_fields(value, size, share, around)
    return _shown_scalar(name, value, size, share)


def _cut_fields(
    value: dict[str, Json], size: Size, share: str, around: tuple[frozenset[str], ...]
) -> Json:
    keys = frozenset(value)
    if len(keys) > 1 and around.count(keys) >= (2 if size.words else 1):
        return f"(same shape, depth {_nesting_depth(value, keys)} from here)"
    data = keys_are_data_in(value)
    most = size.elements if data else MOST_KEYS
    made = {
        _shown_key(key, number, share, data=data): _cut_under_key(
            inside, size, share, (*around, keys), key
        )
        for number, (key, inside) in enumerate([*value.items()][:most], 1)
    }
    return made | ({"...": f"(+{len(value) - most} keys)"} if len(value) > most else {})


def _shown_key(key: str, number: int, share: str, *, data: bool) -> str:
    if data and share == "none":
        return f"<key {number}>"
    name, _ = share_value(key, None, share)
    return name if len(name) <= MOST_NAME_CHARS else display_name(name)


def _nesting_depth(value: Json, keys: frozenset[str]) -> int:
    """How deep objects with these keys stand inside each other, counting the outermost."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    deepest = max((_nesting_depth(one, keys) for one in inside), default=0)
    return deepest + (isinstance(value, dict) and frozenset(value) == keys)


def _shown_scalar(name: str, value: Json, size: Size, share: str) -> Json:
    if not isinstance(value, str):
        return share_value(name, value, share)[1]
    if share == "none":
        return f"<string {len(value)} chars>"
    told = clean_text(share_text(name, bound_text(value), share))
    return cut_middle(told, size.head, size.tail, len(value))
