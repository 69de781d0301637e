"""What every mapper takes and returns: a request, and a turn with the proposal and its evidence.

`auto` asks a configured model where the rules are unsure; `llm` asks the model first. A model that
gives no usable answer costs nothing but its answer: the rules' proposal stands, marked as such.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import floor
from typing import Annotated, NewType

from ingot.agent.privacy import Redactor, SafeProblem
from ingot.converters.errors import ModelError, Problem
from ingot.converters.json_yaml import OMIT, UNSTORED, decode, encode, leaves
from ingot.converters.mapping.language import Mapping
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample


def value_strings(value: Json) -> Iterator[str]:
    """Return every text in a value: paths, literals and names, but not keys."""
    return (one for one in leaves(value) if isinstance(one, str))


# A mapping that a person wrote or corrected needs no second look.
PERSONS = ("file", "edited")


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
        runner_up: the second best choice, None if there was none.
        confidence: 0..1.
    """

    target: str
    choice: str
    why: str
    runner_up: str | None = None
    confidence: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A decision and, where there is something to convert, a mapping.

    Attributes:
        decision: `pt`, `sft`, `irrelevant` or `unmappable`.
        mapping: None for the last two.
        confidence: 0..1; the doors ask a person below their threshold.
        reason: one sentence for people.
        evidence: the decisions that the mapping consists of.
        mapper: `rules` or `llm`; a mapper of another kind gives its own name.
        detected: what was found in values and written as a literal, such as `{"language": "zh"}`.
        layout: name of the known layout that it is, "" = none.
    """

    decision: str
    mapping: Mapping | None
    confidence: float
    reason: str
    evidence: tuple[Evidence, ...] = ()
    mapper: str = "rules"
    detected: dict[str, Json] = field(default_factory=dict)
    layout: Annotated[str, OMIT] = ""


_SHOWN_DOUBTS = 2


def confidence_text(confidence: float) -> str:
    """Write a confidence for people, rounded down: 0.596 is not "at least 0.6"."""
    return f"{floor(100 * confidence + 1e-6) / 100:.2f}"


def doubts_text(evidence: Sequence[Evidence]) -> str:
    """Name the two strongest doubts of a proposal, which come first; "" if there is none."""
    told = dict.fromkeys(one.why for one in evidence if one.target == "doubt")
    return "; ".join([*told][:_SHOWN_DOUBTS])


# What it says of values went through the redactor; its mapping is as it is.
SafeProposal = NewType("SafeProposal", Proposal)


def correct_proposal(proposal: SafeProposal, mapping: Mapping | None) -> SafeProposal:
    """Return a proposal with a person's mapping, without the doubts about the one before."""
    evidence = tuple(one for one in proposal.evidence if one.target != "doubt")
    return replace(proposal, mapping=mapping, mapper="edited", evidence=evidence)


def redacted_proposal(proposal: Proposal, redactor: Redactor) -> SafeProposal:
    """Return the proposal as it may be stored and shown."""
    evidence = decode(tuple[Evidence, ...], redactor.value(encode(proposal)["evidence"]).json)
    return SafeProposal(replace(proposal, reason=redactor.text(proposal.reason), evidence=evidence))


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
    problems: tuple[SafeProblem, ...] = ()
    signals: tuple[str, ...] | None = None
    level: str = ""
    card: Annotated[str, OMIT] = ""
    records: Annotated[tuple[tuple[Json, Json], ...], UNSTORED] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What came of one turn.

    Attributes:
        proposal: None if the answer could not be read as one; then `problems` says why.
        mapper: who answered.
        said: the answer in the mapper's own words, for the next turn; a few thousand characters.
        again: whether the mapper, told what is wrong, could answer better.
        problems: what is wrong with the answer before any row has been looked at.
        notes: what was noted while a model was asked, None = none was.
        remembered: whether this is an accepted answer of an earlier run.
        level: step of the ladder at which a model answered, "" = none did.
        fallback: why this is the rules' answer although a model was asked, "" = it is not so.
        unasked: the model could not be asked, so that the next run may get its answer.
        provenance: what the saved mapping says about its maker besides the proposal.
    """

    proposal: Annotated[Proposal | None, UNSTORED] = None
    mapper: str
    said: str = ""
    again: bool = False
    problems: Annotated[tuple[Problem, ...], UNSTORED] = ()
    notes: Annotated[tuple[str, ...] | None, UNSTORED] = None
    remembered: Annotated[bool, UNSTORED] = False
    level: str = ""
    fallback: str = ""
    unasked: Annotated[bool, OMIT] = False
    provenance: dict[str, Json] = field(default_factory=dict)


History = Sequence[Attempt]
Mapper = Callable[[Source, Sample, Request, History], Turn]


# From here up a proposal is converted without a person, also one that there is nothing to convert:
# of those below it a third were wrong on data that nobody had tuned to (docs/mapper.md).
SURE_CONFIDENCE = 0.9
# Below it a model is asked, where one is configured.
ASKING_CONFIDENCE = 0.9
# From here up the rules' proposal speaks for a model's answer that says the same.
BACKING_CONFIDENCE = 0.6
# A model that was reached and has nothing to say: asking later would not help.
ANSWERED_KINDS = ("refused", "blank", "too_large")


def auto_mapper(rules: Mapper, model: Mapper | None) -> Mapper:
    """Return a mapper that uses the rules, and a configured model if they are unsure."""

    def ask(source: Source, sample: Sample, request: Request, history: History) -> Turn:
        turn = rules(source, sample, request, ())
        if model is None:
            return turn
        found = turn.proposal
        if not history and found is not None and found.confidence >= ASKING_CONFIDENCE:
            return replace(turn, again=True)  # should it fail on the sample, the model is asked
        if why := exhausted_reason(history):
            return fallback_turn(turn, why)
        try:
            return _or_fallback(model(source, sample, request, history), turn)
        except ModelError as error:
            fallback = fallback_turn(turn, f"the model could not be asked: {error}")
            return replace(fallback, unasked=True)

    return ask


def model_first_mapper(model: Mapper, rules: Mapper) -> Mapper:
    """Return a mapper that uses the model, and the rules if its answers are no use."""

    def ask(source: Source, sample: Sample, request: Request, history: History) -> Turn:
        ask_rules = partial(rules, source, sample, request, ())
        if why := exhausted_reason(history):
            return fallback_turn(ask_rules(), why)
        try:
            turn = model(source, sample, request, history)
        except ModelError as error:
            if error.kind not in ANSWERED_KINDS:
                raise
            return fallback_turn(ask_rules(), f"the model gave no answer: {error}")
        return _or_fallback(turn, ask_rules()) if turn.fallback else turn

    return ask


def exhausted_reason(history: Sequence[Attempt]) -> str:
    """Return why a model is not asked again, "" if it may be asked."""
    asked = [one for one in history if one.level]
    if len(asked) < MOST_ANSWERS:
        return ""
    wrong = next(iter(asked[-1].problems), None)  # without what was got: it may be of these rows
    last = f", the last: {wrong.pointer or '/'}: expected {wrong.expected}" if wrong else ""
    return f"the model's {MOST_ANSWERS} answers did not pass{last}"


def _or_fallback(turn: Turn, rules: Turn) -> Turn:
    """The model's turn, or the rules' where an earlier run has shown that its answers fail."""
    if not turn.fallback:
        return turn
    fallback = fallback_turn(rules, turn.fallback)
    return replace(fallback, notes=turn.notes, remembered=turn.remembered)


def fallback_turn(turn: Turn, why: str) -> Turn:
    """Return the turn of the rules, marked as a fallback."""
    if turn.proposal is None:
        return replace(turn, fallback=why)
    found = turn.proposal
    noted = Evidence(target="mapper", choice="rules", why=why, runner_up="llm")
    return replace(
        turn,
        fallback=why,
        provenance={**turn.provenance, "fallback": why},
        proposal=replace(
            found,
            reason=f"{found.reason} (Fallback to the rules: {why}.)",
            evidence=(*found.evidence, noted),
        ),
    )
