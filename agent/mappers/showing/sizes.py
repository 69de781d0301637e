"""How much of a data set is shown: a ladder of sizes, from rich to poor."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One size.

    Attributes:
        rows: rows at most.
        head, tail: characters of a text.
        elements: of a list of objects; of other lists one more.
        values: values with counts per path, where they name no roles.
        paths: lines of the inventory.
        facts: lines of what was computed.
        lines: raw lines of a text file.
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


_FULL = (
    Size(rows=5, head=300, tail=100, elements=3, values=8, paths=150, facts=30, lines=4, roots=4),
    Size(rows=5, head=200, tail=70, elements=3, values=8, paths=150, facts=30, lines=4, roots=4),
    Size(rows=4, head=160, tail=60, elements=3, values=8, paths=120, facts=24, lines=3, roots=3),
    Size(rows=4, head=120, tail=40, elements=3, values=6, paths=120, facts=24, lines=3, roots=3),
    Size(rows=3, head=90, tail=30, elements=3, values=6, paths=100, facts=20, lines=3, roots=3),
    Size(rows=3, head=60, tail=25, elements=2, values=5, paths=90, facts=16, lines=3, roots=2),
    Size(rows=2, head=60, tail=20, elements=2, values=5, paths=80, facts=14, lines=2, roots=2),
)
_POOR = (
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


def ladder(*, small: bool) -> tuple[Size, ...]:
    """The sizes to try, rich ones first; with `small` inventory lines are terse."""
    if not small:
        return (*_FULL, *_POOR)
    return tuple(_terse(size) for size in (*_FULL[-4:], *_POOR))


def _terse(size: Size) -> Size:
    return replace(size, words=False)
