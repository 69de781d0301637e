"""One gate: what must hold, how it stands, and how its figure is written."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ingot.agent.redaction import redact
from ingot.converters.errors import Problem
from ingot.converters.rows import Json

GateState = Literal["pass", "warn", "fail", "person"]
Document = Mapping[str, Json]

_DETAIL = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One thing that must hold, and how it stands.

    Attributes:
        name: what is looked at.
        state: `pass`, `warn` (told, stops nothing), `fail` (exit 1), `person` (exit 3).
        figure: what was found, as people read it: "196/200 (98.0 %)".
        limit: what is wanted: "at least 98 %".
        detail: places and values, redacted; "" where there is nothing to add.
    """

    name: str
    state: GateState
    figure: str
    limit: str
    detail: str = ""

    def to_json(self) -> dict[str, Json]:
        """The gate as plain JSON types."""
        return asdict(self)


class Found:
    """The problems by code; what no gate has asked for is left for gates of their own."""

    def __init__(self, problems: Sequence[dict[str, Json]]) -> None:
        self._left = [Problem(**one) for one in problems]

    def take(self, code: str, within: str = "") -> list[Problem]:
        """The problems of one code, where wanted only those whose pointer has a part."""
        taken = [one for one in self._left if one.code == code and within in one.pointer]
        self._left = [one for one in self._left if one not in taken]
        return taken

    def rest(self) -> Iterator[Gate]:
        """A failed gate for each code that is left."""
        for code in dict.fromkeys(one.code for one in self._left):
            yield failing(code.replace("_", " "), self.take(code), "none")


def failing(name: str, problems: Sequence[Problem], limit: str, figure: str = "") -> Gate:
    """A gate that passes where there is no problem; the figure is their number if none is given."""
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "none"
    return Gate(
        name=name,
        state="fail" if problems else "pass",
        figure=figure or count,
        limit=limit,
        detail=shown(said(one) for one in problems),
    )


def for_person(name: str, why: str, found: Sequence[str], limit: str) -> Gate:
    """A gate that only a person opens where something was found.

    Args:
        name: what is looked at.
        why: what was done there, said before what was found.
        found: the places or values.
        limit: what is wanted.
    """
    return Gate(
        name=name,
        state="person" if found else "pass",
        figure=str(len(found)) if found else "none",
        limit=limit,
        detail=shown([f"{why}: {', '.join(found)}"]) if found else "",
    )


def said(problem: Problem) -> str:
    """A problem's place and what was found there."""
    near = f", nearest: {problem.nearest}" if problem.nearest else ""
    return f"{problem.pointer or '/'}: {problem.got}{near}"


def shown(lines: Iterable[str]) -> str:
    """Places and values as one text without secrets, cut where it is long."""
    text = "; ".join(lines)
    clean = redact(text)
    return clean if len(clean) <= _DETAIL else f"{clean[: _DETAIL - 3]}..."


def share(part: int, whole: int) -> str:
    """A count and its share, never rounded up: "196/200 (98.0 %)"."""
    if not whole:
        return f"{part}/{whole}"
    return f"{part}/{whole} ({math.floor(1000 * part / whole) / 10:.1f} %)"
