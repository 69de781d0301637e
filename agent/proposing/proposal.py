"""The parts of a mapping document, walked: its alternatives, a message's roles, every text.

What every mapper takes and returns: a request, and a proposal with the evidence behind it.
One turn of mapping: a mapper is asked, with what was wrong before, and answers once.
The scripted mapper: answers from a queue, and remembers what it was asked. For tests.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from ingot.converters.errors import IngotError, Problem
from ingot.converters.json_yaml import OMIT, UNSTORED
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample

MappingDocument = dict[str, Json]

ROLES = ("user", "assistant", "system", "tool")


def document_layouts(document: MappingDocument) -> Iterator[tuple[str, MappingDocument]]:
    """The mapping and its alternatives, each with its JSON Pointer."""
    yield "", document
    for number, variant in enumerate(document.get("any_of") or []):
        yield f"/any_of/{number}", variant


def message_roles(role: Json) -> tuple[Json, ...]:
    """The roles that a message may have."""
    if isinstance(role, dict):
        named = role.get("map") or role.get("split")
        return tuple(named.values()) if named else ROLES
    return tuple(role) if isinstance(role, list) else (role,)


def value_strings(value: Json) -> Iterator[str]:
    """Every text anywhere in a value: paths, literals and names; keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from value_strings(inside)


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
            data: no state holds them.
    """

    mapper: str
    said: str
    problems: tuple[Problem, ...] = ()
    signals: tuple[str, ...] | None = None
    level: str = ""
    card: Annotated[str, OMIT] = ""
    records: Annotated[tuple[tuple[Json, Json], ...], UNSTORED] = ()


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

    proposal: Annotated[Proposal | None, UNSTORED] = None
    mapper: str
    said: str = ""
    again: bool = False
    problems: Annotated[tuple[Problem, ...], UNSTORED] = ()
    asked: Annotated[dict[str, Json], UNSTORED] = field(default_factory=dict)
    level: str = ""
    fallback: str = ""
    provenance: dict[str, Json] = field(default_factory=dict)


History = Sequence[Attempt]
Mapper = Callable[[Source, Sample, Request, History], Turn]


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
