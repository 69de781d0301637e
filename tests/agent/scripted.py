"""A mapper whose answers are written beforehand."""

from collections.abc import Iterable

from ingot.agent.proposing.proposal import Attempt, History, Proposal, Request, Turn
from ingot.converters.errors import IngotError
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample


class ScriptedMapper:
    """A mapper that gives the next of its answers at every turn; an error among them is raised.

    Attributes:
        asked: request and former attempts of every turn so far.
    """

    def __init__(self, answers: Iterable[Proposal | IngotError]) -> None:
        self._answers = iter(answers)
        self.asked: list[tuple[Request, tuple[Attempt, ...]]] = []

    def __call__(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        """The next answer."""
        self.asked.append((request, tuple(history)))
        answer = next(self._answers)
        if isinstance(answer, IngotError):
            raise answer
        return Turn(proposal=answer, mapper="scripted", said=answer.reason, again=True)
