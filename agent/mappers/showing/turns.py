"""Who speaks and in which order, and what belongs together: computed, not judged."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ingot.agent.mappers.rules.readings import shapes
from ingot.agent.mappers.rules.table import Column, View
from ingot.agent.mappers.showing.cleaning import shown_path
from ingot.agent.mappers.showing.inventory import role_values, told_roles
from ingot.converters.paths import join_path
from ingot.converters.rows import Json

MOST_COLUMNS = 40  # that are compared with each other
_OFTEN = 0.8
_GOES_ON = "the same shape"  # a note of the inventory
_DEEPEST = 60  # objects inside each other that are looked into


def lines(rows: Sequence[Json], view: View, share: str) -> Iterator[str]:
    """What was found: paths, shares, and the names of who speaks."""
    yield from _kinds_of_rows(rows)
    yield from _nesting(rows, view)
    yield from _speakers(rows, view, share)
    yield from _groups(view.columns[:MOST_COLUMNS])


def _kinds_of_rows(rows: Sequence[Json]) -> Iterator[str]:
    parts = shapes(rows)
    if not parts:
        return
    told = []
    for part in parts:
        keys = dict.fromkeys(key for row in part for key in row)
        named = ", ".join(shown_path(join_path(str(key))) for key in list(keys)[:8])
        told.append(f"{len(part)} rows with {named}")
    yield f"rows are of {len(parts)} kinds: " + " | ".join(told)


def _nesting(rows: Sequence[Json], view: View) -> Iterator[str]:
    """How deep a shape that holds itself goes, as a reply tree does."""
    if any(facts.note.startswith(_GOES_ON) for facts in view.facts.paths):
        yield f"objects of one shape stand inside each other, up to {max(map(_nested, rows))} deep"


def _nested(value: Json, around: tuple[frozenset[str], ...] = ()) -> int:
    """The most objects with the same keys that stand inside each other."""
    if len(around) >= _DEEPEST:
        return 0
    if isinstance(value, list):
        return max((_nested(one, around) for one in value), default=0)
    if not isinstance(value, dict):
        return 0
    here = (*around, frozenset(value))
    own = here.count(here[-1]) if len(value) > 1 else 0
    return max([own, *(_nested(one, here) for one in value.values())])


def _speakers(rows: Sequence[Json], view: View, share: str) -> Iterator[str]:
    """Who speaks in lists of messages: by turns or not, who begins and ends."""
    for column in (c for c in view.columns if c.nested):
        if role_values(rows, column.facts) is None:
            continue
        talks = [[str(v) for v in row if v is not None] for row in column.values]
        talks = [talk for talk in talks if talk]
        if not talks:
            continue
        strict = sum(all(a != b for a, b in pairwise(talk)) for talk in talks)
        ends = (Counter(t[0] for t in talks), Counter(t[-1] for t in talks))
        begin, end = (told_roles(column.name, dict(count.most_common(4)), share) for count in ends)
        yield (
            f"{shown_path(column.path)}: neighbours differ {portion(strict, len(talks))} lists; "
            f"first {begin}; last {end}"
        )


def _groups(columns: Sequence[Column]) -> Iterator[str]:
    """Columns whose values come in runs of neighbouring rows, as those of a conversation do."""
    flat = [c for c in columns if not c.many and c.fill == 1 and len(c.texts) >= 6]
    for column in flat:
        runs = _runs(column.texts)
        repeated = 2 <= column.distinct < len(column.texts)
        if not repeated or len(runs) != column.distinct or len(runs) * 1.5 > len(column.texts):
            continue
        counting = [other for other in flat if other is not column and _counts(other, runs)]
        order = ", ".join(shown_path(other.path) for other in counting[:2])
        turns = ", ".join(shown_path(other.path) for other in flat if _alternates(other, runs))
        if not (order or turns or column.named("id") > _OFTEN or column.named("foreign_id") > 0):
            continue
        sizes = [stop - start for start, stop in runs]
        told = f"rows with the same {shown_path(column.path)} are neighbours"
        counted = f"; {order} counts up inside them" if order else ""
        counted += f"; {turns} takes turns between two values inside them" if turns else ""
        yield f"{told}, {min(sizes)}-{max(sizes)} rows each{counted}"


def _runs(texts: Sequence[str]) -> list[tuple[int, int]]:
    starts = [0, *(n for n in range(1, len(texts)) if texts[n] != texts[n - 1])]
    return list(zip(starts, [*starts[1:], len(texts)], strict=True))


def _counts(column: Column, runs: Sequence[tuple[int, int]]) -> bool:
    """Whether numbers grow by one inside every run, and restart."""
    if not column.numeric or column.distinct == len(column.texts):
        return False
    numbers = [int(text) if text.strip("-").isdecimal() else None for text in column.texts]
    inside = [pair for start, stop in runs for pair in pairwise(numbers[start:stop])]
    return bool(inside) and all(a is not None and b == a + 1 for a, b in inside)


def _alternates(column: Column, runs: Sequence[tuple[int, int]]) -> bool:
    """Whether two values take turns inside every run."""
    talks = [column.texts[start:stop] for start, stop in runs if stop - start > 1]
    return bool(talks) and all(
        len(set(talk)) == 2 and all(a != b for a, b in pairwise(talk)) for talk in talks
    )


def portion(good: int, whole: int) -> str:
    """A share in words, with what it is a share of."""
    return f"in {good / whole:.0%} of {whole}" if good < whole else f"in all {whole}"
