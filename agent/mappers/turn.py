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


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A former turn: who answered, in which words (an LLM's reply), and what was wrong."""

    mapper: str
    said: str
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Json]:
        """The attempt as plain JSON types."""
        return {**asdict(self), "problems": [asdict(one) for one in self.problems]}

    @classmethod
    def from_json(cls, document: dict[str, Json]) -> "Attempt":
        """The inverse of `to_json`."""
        problems = tuple(Problem(**one) for one in document["problems"])
        return cls(mapper=document["mapper"], said=document["said"], problems=problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What came of one turn.

    Attributes:
        proposal: None where the answer could not be read as one; then `problems` says why.
        mapper: who answered.
        said: the answer in the mapper's own words, for the next turn; a few thousand characters.
        again: whether the mapper, told what is wrong, could answer better.
        problems: what is wrong with the answer before any row has been looked at.
        usage: calls, characters sent, tokens, host; {} where nothing left this machine.
        provenance: what the saved mapping says about its maker besides the proposal.
    """

    proposal: Proposal | None
    mapper: str
    said: str = ""
    again: bool = False
    problems: tuple[Problem, ...] = ()
    usage: dict[str, Json] = field(default_factory=dict)
    provenance: dict[str, Json] = field(default_factory=dict)


History = Sequence[Attempt]
Turner = Callable[[Source, Sample, Request, History], Turn]
