"""What lies beside a mapping in the listing of a side: its pinned sample and its golden rows."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from ingot.agent.pinning.samples import ABOUT
from ingot.agent.review.revisions import MOST_SAMPLE, Side

_SMALLER = 0.5  # of a sample's bytes: it may lack rows that it states
SIDECARS = {"sample": ".sample", "golden": ".golden.jsonl"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """How much there is of a pinned sample: the rows that it states, and the bytes of its files."""

    rows: int
    size: int


def place_of(mapping: str, name: str) -> str:
    """Where the thing of one kind lies beside a mapping, a path of the same side."""
    return mapping.removesuffix(".json") + SIDECARS[name]


def owner_of(path: str) -> str | None:
    """The mapping beside which a path of a sample or of golden rows lies, None if it is neither."""
    for name, ending in SIDECARS.items():
        at = f"{path}/".find(f"{ending}/") if name == "sample" else _end(path, ending)
        if at > 0 and path[at - 1] != "/":
            return f"{path[:at]}.json"
    return None


def _end(path: str, ending: str) -> int:
    return len(path) - len(ending) if path.endswith(ending) else -1


def owners(paths: Collection[str]) -> set[str]:
    """The mappings beside which some paths lie."""
    return {owner for path in paths if (owner := owner_of(path)) is not None}


def ids(side: Side, mapping: str, name: str) -> dict[str, str]:
    """What names the contents of the things of one kind beside a mapping, links among them."""
    place = place_of(mapping, name)
    return {
        path[len(place) :]: one
        for listed in (side.files, side.others)
        for path, one in listed.items()
        if path == place or (name == "sample" and path.startswith(f"{place}/"))
    }


def strange(side: Side, mapping: str) -> str:
    """What in the sample beside a mapping is no regular file, in words, "" if nothing is."""
    place = place_of(mapping, "sample")
    found = [one for one in side.others if one == place or one.startswith(f"{place}/")]
    return f"{min(found)} is {side.others[min(found)]}" if found else ""


def extent(side: Side, mapping: str) -> Extent | None:
    """How much there is of the sample beside a mapping, None where there is none."""
    place = place_of(mapping, "sample")
    paths = [path for path in side.files if path.startswith(f"{place}/")]
    if (about := f"{place}/{ABOUT}") not in paths:
        return None
    found = side.contents(paths, MOST_SAMPLE)
    return Extent(rows=_rows(found.get(about, b"")), size=sum(map(len, found.values())))


def _rows(about: bytes) -> int:
    try:
        stated = json.loads(about)["rows"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return 0
    return stated if isinstance(stated, int) else 0


def less(was: Extent | None, now: Extent | None) -> tuple[str, str] | None:
    """The rule and the words for a sample that shows less than before, None for any other."""
    if was is None:
        return None
    if now is None:
        return "sample_removed", f"the pinned sample of {was.rows} rows is gone"
    if now.rows < was.rows:
        said = f"the pinned sample has fewer rows: {was.rows} → {now.rows}"
        return "sample_smaller", said
    if now.size < was.size * _SMALLER:
        said = f"the pinned sample has fewer bytes: {was.size} → {now.size}"
        return "sample_smaller", said
    return None
