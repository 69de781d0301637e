"""The rows that a model is shown: few that cover the shapes there are, cut but with every key."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from ingot.agent.mappers.rules.names import strength
from ingot.agent.mappers.showing.cleaning import (
    MOST_NAME,
    bounded,
    clean,
    cut,
    hidden_escaped,
    shown_name,
)
from ingot.agent.mappers.showing.sharing import shared, shared_text
from ingot.agent.mappers.showing.sizes import Size
from ingot.converters.profile import keys_are_data, spread
from ingot.converters.rows import Json

MOST_KEYS = 60
MOST_DEPTH = 10
_SEEN = 60  # elements of a list that are looked at for the shapes of a row
_AT_LEAST = 3  # rows that are shown although fewer cover all shapes
_SPEAKER = 40  # characters of a name of who speaks

Feature = tuple[str, str]


def chosen(rows: Sequence[Json], most: int) -> list[int]:
    """Numbers of at most `most` rows that cover the most shapes, and speakers; most telling first.

    A shape is a path with a JSON type (blank texts are one of their own), or with the name of who
    speaks there. The same rows give the same choice.
    """
    left = [frozenset(_features(row, "", 0)) for row in rows]
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
    picked += spread(others, wanted - len(picked)) if wanted > len(picked) else []
    return picked


def _features(value: Json, path: str, depth: int) -> Iterator[Feature]:
    if isinstance(value, dict) and depth < MOST_DEPTH:
        yield path, "object"
        data = keys_are_data_in(value)
        for key, inside in value.items():
            yield from _features(inside, f"{path}.*" if data else f"{path}.{key}", depth + 1)
    elif isinstance(value, list) and depth < MOST_DEPTH:
        yield path, "list" if value else "empty list"
        for inside in value[:_SEEN]:
            yield from _features(inside, f"{path}[*]", depth + 1)
    elif isinstance(value, str):
        yield path, "text" if value.strip() else "blank"
        if len(value) <= _SPEAKER and strength(path.rsplit(".", 1)[-1], "speaker") >= 1:
            yield path, f"says {value}"
    else:
        yield path, type(value).__name__


def keys_are_data_in(value: dict[str, Json]) -> bool:
    """Whether the keys of one object are data: numbered turns, or many ids."""
    kinds = {type(inside) for inside in value.values()} - {type(None)}
    one_shape = len(kinds) == 1 and kinds <= {dict, list}
    return len(value) > 3 and keys_are_data(Counter(value.keys()), 1, one_shape)


def rendered(value: Json, size: Size, share: str) -> str:
    """A value as one line of JSON, cut; what is invisible in a key stands as its escape."""
    return hidden_escaped(
        json.dumps(cut_value(value, size, share), ensure_ascii=False, default=str)
    )


def cut_value(value: Json, size: Size, share: str) -> Json:
    """A value that keeps its shape: keys (60), first elements, heads and tails of texts.

    Secrets are taken out before anything is cut; with share `none` no value is left.
    """
    return _cut(value, size, share)


def _cut(
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
        kept = [_cut(one, size, share, inside, name) for one in value[:most]]
        return [*kept, f"(+{len(value) - most} more)"] if len(value) > most else kept
    if isinstance(value, dict):
        return _cut_object(value, size, share, around)
    return _leaf(name, value, size, share)


def _cut_object(
    value: dict[str, Json], size: Size, share: str, around: tuple[frozenset[str], ...]
) -> Json:
    keys = frozenset(value)
    if len(keys) > 1 and around.count(keys) >= (2 if size.words else 1):
        return f"(same shape, depth {_depth(value, keys)} from here)"
    data = keys_are_data_in(value)
    most = size.elements if data else MOST_KEYS
    made = {
        _key(key, number, share, data=data): _cut(inside, size, share, (*around, keys), key)
        for number, (key, inside) in enumerate([*value.items()][:most], 1)
    }
    return made | ({"...": f"(+{len(value) - most} keys)"} if len(value) > most else {})


def _key(key: str, number: int, share: str, *, data: bool) -> str:
    if data and share == "none":
        return f"<key {number}>"
    name, _ = shared(key, None, share)
    return name if len(name) <= MOST_NAME else shown_name(name)


def _depth(value: Json, keys: frozenset[str]) -> int:
    """How deep objects with these keys stand inside each other, counting the outermost."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    deepest = max((_depth(one, keys) for one in inside), default=0)
    return deepest + (isinstance(value, dict) and frozenset(value) == keys)


def _leaf(name: str, value: Json, size: Size, share: str) -> Json:
    """A scalar as it may be shown."""
    if not isinstance(value, str):
        return shared(name, value, share)[1]
    if share == "none":
        return f"<string {len(value)} chars>"
    told = clean(shared_text(name, bounded(value), share))
    return cut(told, size.head, size.tail, len(value))
