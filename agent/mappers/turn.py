"""One turn of mapping: a mapper is asked, with what was wrong before, and answers once.

The turn is what the graph repeats, so that every call is a checkpoint of its own and the number of
corrections is bounded in one place.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from ingot.agent.mappers.proposal import Proposal, Request
from ingot.converters.errors import Problem
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

MODEL = "llm"  # the mapper that asks a model
MOST_ANSWERS = 3  # of a model: the first one and two corrections


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A former turn: who answered, in which words (an LLM's reply), and what came of it.

    Attributes:
        mapper: who answered.
        said: the answer in the mapper's own words.
        problems: what was wrong.
        signals: what looked odd about an answer that had no problem; None = that was not asked.
        level: step of the ladder at which the answer was given, "" = no model answered.
        card: the files of the card that a model was shown with the data, "" = none.
        records: rows beside the records that the answer made of them, for a second look. They are
            data: no state holds them, `to_json` leaves them out.
    """

    mapper: str
    said: str
    problems: tuple[Problem, ...] = ()
    signals: tuple[str, ...] | None = None
    level: str = ""
    card: str = ""
    records: tuple[tuple[Json, Json], ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The attempt as plain JSON types, without rows."""
        under = {"card": self.card} if self.card else {}
        return {
            "mapper": self.mapper,
            "said": self.said,
            "problems": [asdict(one) for one in self.problems],
            "signals": None if self.signals is None else list(self.signals),
            "level": self.level,
            **under,
        }

    @classmethod
    def from_json(cls, document: dict[str, Json]) -> "Attempt":
        """The inverse of `to_json`."""
        problems = tuple(Problem(**one) for one in document["problems"])
        signals = document["signals"]
        return cls(
            mapper=document["mapper"],
            said=document["said"],
            problems=problems,
            signals=None if signals is None else tuple(signals),
            level=document["level"],
            card=document.get("card", ""),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What came of one turn.

    Attributes:
        proposal: None where the answer could not be read as one; then `problems` says why.
        mapper: who answered.
        said: the answer in the mapper's own words, for the next turn; a few thousand characters.
        again: whether the mapper, told what is wrong, could answer better.
        problems: what is wrong with the answer before any row has been looked at.
        asked: what people want to know of a question to a model: host, model, notes, whether the
            answer was remembered; {} = no model was asked.
        level: step of the ladder at which a model answered, "" = none did.
        fallback: why this is the rules' answer although a model was asked, "" = it is not so.
        provenance: what the saved mapping says about its maker besides the proposal.
    """

    proposal: Proposal | None
    mapper: str
    said: str = ""
    again: bool = False
    problems: tuple[Problem, ...] = ()
    asked: dict[str, Json] = field(default_factory=dict)
    level: str = ""
    fallback: str = ""
    provenance: dict[str, Json] = field(default_factory=dict)


History = Sequence[Attempt]
Turner = Callable[[Source, Sample, Request, History], Turn]
