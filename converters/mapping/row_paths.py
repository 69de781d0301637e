"""The paths that occur in rows: all of them, the nearest one to a text, whether one gives a hit."""

import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ingot.converters import paths
from ingot.converters.rows import Json, RowError

_OBSERVED_LIMIT = 2000
_DEPTH_LIMIT = 12


def observed_paths(values: Iterable[Json]) -> tuple[str, ...]:
    """Return the paths that occur in the rows, in order of first appearance; at most 2,000."""
    seen: dict[tuple[str, ...], None] = {}

    def walk(value: Json, segments: tuple[str, ...]) -> None:
        if len(seen) >= _OBSERVED_LIMIT or len(segments) > _DEPTH_LIMIT:
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                if len(seen) >= _OBSERVED_LIMIT:
                    return
                here = (*segments, key)
                seen.setdefault(here)
                if isinstance(inner, dict | list):
                    walk(inner, here)
        elif isinstance(value, list):
            here = (*segments, "[*]")
            seen.setdefault(here)
            for inner in value[:20]:
                walk(inner, here)

    for value in values:
        walk(value, ())
    return tuple(dict.fromkeys(paths.join_path(*segments) for segments in seen))


def nearest_path(text: str, observed: Sequence[str]) -> str | None:
    """Return the observed path that looks most like a text, None if none does."""
    by_folded = {path.casefold(): path for path in reversed(observed)}
    folded = text.casefold()
    close = difflib.get_close_matches(folded, by_folded, 1, cutoff=0.6)
    if close:
        return by_folded[close[0]]
    last = folded.rsplit(".", 1)[-1]
    ending = [path for path in observed if path.casefold().rsplit(".", 1)[-1] == last]
    return min(ending, key=len, default=None)


def resolves(path: paths.Path, values: Iterable[Json]) -> bool:
    """True if the path gives a hit (null is one) in at least one row."""
    for value in values:
        with suppress(RowError):
            if path.nodes(paths.Node(value)):
                return True
    return False
