"""A draft: one way to read the rows, with a score and the reasons for it."""

from dataclasses import dataclass, field, replace

from ingot.agent.mappers.proposal import Evidence
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One way to read the rows of a view.

    Attributes:
        kind: `pt` or `sft`.
        body: keys of the mapping document besides version, source, meta.
        score: 0..1, how well names and values speak for it.
        why: the reason in a few words.
        used: paths of the data that the body takes text from.
        explicit: names or speakers say that this is a conversation; or, of a text, that it is one.
        pair: one question and one answer, each from columns of its own.
        evidence: decisions inside it.
        most: the most confidence that it may claim.
        unknown: speakers without a role: rows that fail on them do not speak against the draft.
    """

    kind: str
    body: dict[str, Json]
    score: float
    why: str
    used: frozenset[str] = frozenset()
    explicit: bool = True
    pair: bool = False
    evidence: tuple[Evidence, ...] = field(default=())
    most: float = 1.0
    unknown: frozenset[str] = frozenset()

    def times(self, factor: float) -> "Draft":
        """The same draft, trusted more or less."""
        return replace(self, score=min(1.0, self.score * factor))


def joined(parts: list[Json]) -> Json:
    """Parts of a text: one part stands for itself."""
    return parts[0] if len(parts) == 1 else parts


def user_assistant(user: list[Json], assistant: list[Json]) -> list[dict[str, Json]]:
    """The messages of one question and one answer."""
    return [
        {"role": "user", "content": joined(user)},
        {"role": "assistant", "content": joined(assistant)},
    ]
