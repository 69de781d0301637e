"""A record before and after, as lines that show what differs."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from ingot.agent.review.escaping import begun, fenced, told, wrapped
from ingot.converters.rows import Json

MOST_LINES = 36
_TEXT = 700


def example(shown: dict[str, Json]) -> str:
    """One of the `examples` of the review document as a block of code."""
    lines = list(compared(_lines(shown["old"]), _lines(shown["new"])))
    return fenced(_first(lines, MOST_LINES), "diff")


def _lines(record: Json) -> list[str]:
    """A record as lines; those of a text that go on are set in."""
    lines = []
    for name, text in record or []:
        first, *more = wrapped(begun(text, _TEXT))
        lines += [f"{told(name, 60)}: {first}", *(f"  {line}" for line in more)]
    return _first(lines, 4 * MOST_LINES)


def compared(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """What differs between two records' lines, and two lines around it.

    Returns:
        Lines that begin with `- ` (of the old one), `+ ` (of the new one) or two blanks (of both).
    """
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(2))
    if not groups:
        yield from (f"  {line}" for line in old)
        yield "  (they differ in what is cut)"
    for number, group in enumerate(groups):
        if number or group[0][1]:
            yield "  ..."
        for tag, start, end, begin, stop in group:
            if tag == "equal":
                yield from (f"  {line}" for line in old[start:end])
                continue
            yield from (f"- {line}" for line in old[start:end])
            yield from (f"+ {line}" for line in new[begin:stop])


def _first(lines: list[str], most: int) -> list[str]:
    left = len(lines) - most
    return lines if left <= 0 else [*lines[:most], f"  ...(+{left} lines)"]
