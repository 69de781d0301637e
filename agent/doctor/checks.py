"""What one check found, and what all of them together mean for the exit code."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ingot.converters.errors import ModelError, OutputError
from ingot.converters.rows import Json

State = Literal["ok", "warn", "fail", "skipped"]
ENDPOINT = "endpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        group: `installation`, `places` or `endpoint`.
        name: what was looked at.
        state: `fail` = ingot cannot work with it, `skipped` = not there or not looked at.
        figure: what was found, in words.
        hint: what to do; empty = nothing.
        notes: what is worth knowing besides.
    """

    group: str
    name: str
    state: State
    figure: str
    hint: str = ""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Every field by its name."""
        return asdict(self)


def end(found: Sequence[Check]) -> None:
    """Nothing where no check failed.

    Raises:
        OutputError: one of this machine failed; it comes before what the endpoint does.
        ModelError: one of the endpoint failed.
    """
    failed = [one for one in found if one.state == "fail"]
    if any(one.group != ENDPOINT for one in failed):
        raise OutputError("doctor", _said(failed))
    if failed:
        raise ModelError("doctor", _said(failed))


def _said(failed: Sequence[Check]) -> str:
    count = f"{len(failed)} check{'s' * (len(failed) != 1)} failed"
    return f"{count}: {', '.join(one.name for one in failed)}"
