"""What every mapper takes and returns: a request, and a proposal with the evidence behind it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ingot.converters.rows import Json

MODES = ("auto", "pt", "sft")
# A mapping that a person wrote or corrected needs no second look.
PERSONS = ("file", "edited")
DECISIONS = ("pt", "sft", "irrelevant", "unmappable")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the user asked for.

    Attributes:
        mode: `pt`, `sft`, or `auto` (the mapper decides).
        language: ISO 639-1 code or `mix` that the user stated, None = read or detected.
        source_name: name of the data set for people; never used to decide anything.
        share: what a model may see of the values: `none`, `redacted` or `raw`.
        tokens: how long the first question to a model may be, as estimated.
    """

    mode: str = "auto"
    language: str | None = None
    source_name: str | None = None
    share: str = "redacted"
    tokens: int = 8000


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """Why one decision fell as it did.

    Attributes:
        target: what was decided: `decision`, `text`, `messages.role`, `meta.original_id`, ...
        choice: what was chosen, as people read it.
        why: the reason, from names and values.
        runner_up: the second best choice, None where there was none.
        confidence: 0..1.
    """

    target: str
    choice: str
    why: str
    runner_up: str | None = None
    confidence: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A decision and, where there is something to convert, a version 2 mapping document.

    Attributes:
        decision: `pt`, `sft`, `irrelevant` or `unmappable`.
        mapping: the document, None for the last two.
        confidence: 0..1; the doors ask a person below their threshold.
        reason: one sentence for people.
        evidence: the decisions that the mapping consists of.
        mapper: `rules`, `llm` or `scripted`.
        detected: what was found in values and written as a literal, such as `{"language": "zh"}`.
    """

    decision: str
    mapping: dict[str, Json] | None
    confidence: float
    reason: str
    evidence: tuple[Evidence, ...] = ()
    mapper: str = "rules"
    detected: dict[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The proposal as plain JSON types."""
        return {**asdict(self), "evidence": [asdict(one) for one in self.evidence]}

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "Proposal":
        """The inverse of `to_json`."""
        evidence = tuple(Evidence(**one) for one in document.get("evidence", ()))
        return cls(**{**document, "evidence": evidence})
