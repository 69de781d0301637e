"""The document that a review writes (schemas/review.schema.json), object by object."""

from typing import TypedDict

from ingot.agent.privacy import Safe, redact
from ingot.agent.review.replay import Kind, SideFigures
from ingot.agent.review.verdict import Level
from ingot.converters.mapping.language import Mapping


class Example(TypedDict):
    """A record before and after, each as lines of a name and a text."""

    kind: Kind
    place: Safe
    old: list[list[Safe]] | None
    new: list[list[Safe]] | None


class ReasonEntry(TypedDict):
    """Why a mapping does not simply pass."""

    level: Level
    rule: str
    text: Safe
    line: int | None


_Classed = TypedDict("_Classed", {"class": str | None})


class ChangeEntry(_Classed):
    """A change of a mapping."""

    target: Safe
    rule: str
    old: Safe | None
    new: Safe | None
    line: int | None


class PathEntry(TypedDict):
    """How often a path of a mapping was found in the sample."""

    target: Safe
    path: Safe
    resolved: int
    null: int
    missing: int
    rows: int


class SideEntry(SideFigures):
    """What one side makes of the sample."""

    paths: list[PathEntry]


class SampleEntry(TypedDict):
    """What both sides were run on."""

    kind: str
    place: Safe
    rows: int
    sha256: str | None
    why: Safe


class DriftEntry(TypedDict):
    """How the sample differs from the data that the mapping was made for."""

    path: Safe
    what: str
    before: Safe
    after: Safe
    stops: bool


class GoldenFailure(TypedDict):
    """A golden row whose record is another one now."""

    line: int
    why: Safe


class GoldenEntry(TypedDict):
    """What came of the golden rows."""

    file: str
    rows: int
    failed: list[GoldenFailure]


class CostEntry(TypedDict):
    """What it took to make a mapping."""

    calls: float | int | None
    tokens_in: float | int | None
    tokens_out: float | int | None
    usd: float | int | None


class ProvenanceEntry(TypedDict):
    """Who made a mapping."""

    mapper: Safe | None
    model: Safe | None
    prompt_sha256: Safe | None
    confidence: float | int | None
    edited: bool | None
    repaired: bool | None
    cost: CostEntry | None


class MappingEntry(_Classed):
    """One mapping."""

    path: str
    old_path: str | None
    status: str
    verdict: Level
    reasons: list[ReasonEntry]
    changes: list[ChangeEntry]
    sample: SampleEntry
    old: SideEntry | None
    new: SideEntry | None
    same: int | None
    of: int | None
    examples: list[Example]
    drift: list[DriftEntry]
    golden: GoldenEntry | None
    provenance: dict[str, ProvenanceEntry | None]
    reproduce: str | None


class ReviewDocument(TypedDict):
    """The whole review."""

    version: int
    base: Safe
    head: Safe
    commits: dict[str, str | None]
    verdict: Level
    allow_breaking: bool
    reproduce: str | None
    mappings: list[MappingEntry]


def provenance_entry(mapping: Mapping | None) -> ProvenanceEntry | None:
    """State who made a mapping; a value of a wrong type is not stated."""
    provenance = mapping.provenance if mapping else None
    if not provenance:
        return None
    repaired = provenance.get("repaired")
    return {
        "mapper": _text_or_none(provenance.get("mapper")),
        "model": _text_or_none(provenance.get("model")),
        "prompt_sha256": _text_or_none(provenance.get("prompt_sha256")),
        "confidence": _number_or_none(provenance.get("confidence")),
        "edited": provenance["edited"] if isinstance(provenance.get("edited"), bool) else None,
        "repaired": bool(repaired) if isinstance(repaired, bool | list) else None,
        "cost": _cost_json(provenance.get("cost")),
    }


def _cost_json(cost: object) -> CostEntry | None:
    if not isinstance(cost, dict):
        return None
    return {
        "calls": _number_or_none(cost.get("calls")),
        "tokens_in": _number_or_none(cost.get("tokens_in")),
        "tokens_out": _number_or_none(cost.get("tokens_out")),
        "usd": _number_or_none(cost.get("usd")),
    }


def _text_or_none(value: object) -> Safe | None:
    return redact(value) if isinstance(value, str) else None


def _number_or_none(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value
