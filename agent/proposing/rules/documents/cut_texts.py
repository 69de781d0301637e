"""Texts that an old system cut at a fixed width, over several numbered columns."""

import re
from collections.abc import Sequence
from itertools import pairwise

from ingot.agent.proposing.columns import Column, View, has_scalars, paired_texts

_NUMBER = re.compile(r"(.*?\D)0*(\d+)\D*")
_FEWEST = 3  # cuts
_NEARLY_ALL = 0.9
_OPEN_END = re.compile(r"[\w,;]\s*$")


def find_cut_text(view: View, body: Column) -> list[str]:
    """The paths of the pieces of one text in their order, [] where a column holds a whole one."""
    numbers = {f.path: _number_of(f.path) for f in view.facts.paths}
    stem = numbers.get(body.path, ("", 0))[0]
    if not stem:  # body, then body_cont1, body_cont2
        stem = next((s for s, _ in numbers.values() if s.startswith(body.path)), "")
        numbers[body.path] = (stem, 0)
    held = {f.path for f in view.facts.paths if has_scalars(f) or set(f.types) <= {"null"}}
    family = sorted(
        (p for p in held if stem and numbers[p][0] == stem), key=lambda p: numbers[p][1]
    )
    columns = [c for path in family for c in view.columns if c.path == path]
    return family if _are_cut(columns) and not body.nameless else []


def _number_of(path: str) -> tuple[str, int]:
    found = _NUMBER.fullmatch(path)
    return (found[1], int(found[2])) if found else ("", 0)


def _are_cut(columns: Sequence[Column]) -> bool:
    """Whether pieces that another one follows have one length, and stop inside a sentence."""
    cuts = [first for a, b in pairwise(columns) for first, _ in paired_texts(a, b)]
    width = max(map(len, cuts), default=0)
    full = sum(len(text) == width for text in cuts)
    inside = sum(bool(_OPEN_END.search(text)) for text in cuts)
    return len(cuts) >= _FEWEST and full >= _NEARLY_ALL * len(cuts) and 2 * inside > len(cuts)
