"""The scripted mapper: answers from a queue, and remembers what it was asked. For tests."""

from collections.abc import Iterable

from ingot.agent.mappers.proposal import Proposal, Request
from ingot.agent.mappers.turn import Attempt, History, Turn
from ingot.converters.errors import IngotError
from ingot.converters.readers import Source
from ingot.converters.sample import Sample


class Scripted:
    """A mapper that gives the next of its answers at every turn; an error among them is raised.

    Attributes:
        asked: request and former attempts of every turn so far.
    """

    def __init__(self, answers: Iterable[Proposal | IngotError]) -> None:
        self._answers = iter(answers)
        self.asked: list[tuple[Request, tuple[Attempt, ...]]] = []

    def __call__(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        """The next answer.

        Raises:
            IngotError: where the queue holds one.
            StopIteration: the queue is empty, which is a mistake of the script's author.
        """
        self.asked.append((request, tuple(history)))
        answer = next(self._answers)
        if isinstance(answer, IngotError):
            raise answer
        return Turn(proposal=answer, mapper="scripted", said=answer.reason, again=True)
