"""What a run knows between its steps: typed here, plain JSON where it is kept, no rows.

The messages of a served run are plain objects, as clients send them, each with an id.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NewType, TypeAlias, TypedDict

from ingot.agent.model.budget import Usage
from ingot.agent.privacy import EMPTY_TEXT, Safe, SafeProblem
from ingot.agent.proposing.order import Order as Order
from ingot.agent.proposing.proposal import Attempt, Evidence, SafeProposal, Turn
from ingot.converters.errors import count_text
from ingot.converters.json_yaml import EMPTY, OMIT, UNSTORED
from ingot.converters.mapping.check import PathReach
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.loss import NO_LOSS, Loss
from ingot.converters.mapping.signs import SignRows, sign_text
from ingot.converters.rows import Json, NonFinite, non_finite_text
from ingot.converters.sources.facts import LeftOut
from ingot.converters.sources.text_kinds import Content

Channels = dict[str, Json]  # a `State` as LangGraph keeps it
Message = dict[str, Json]
Reply = Json  # what a person answers, not looked at yet
Question = dict[str, Json]  # to a person, in the form that agent inboxes show and answer


def add_messages(old: Sequence[Message], new: Json) -> list[Message]:
    """Return the conversation with the last words: a message, a person's text, or a list."""
    messages = new if isinstance(new, list) else [new]
    start = len(old)
    return [*old, *(_to_message(message, start + place) for place, message in enumerate(messages))]


def _to_message(one: Json, place: int) -> Message:
    message = one if isinstance(one, dict) else {"type": "human", "content": str(one)}
    return {**message, "id": message.get("id") or f"message-{place}"}


def answer_message(text: Safe) -> Message:
    """Return a message of the run."""
    return {"type": "ai", "content": text}


SafeLeftOut = NewType("SafeLeftOut", LeftOut)


@dataclass(frozen=True, slots=True)
class UnreadKind:
    """How many files of a format are not read, and their bytes."""

    name: Safe
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadFiles:
    """Files in formats that are not read: `bytes` of the `of_bytes` of all that look like data."""

    files: int
    bytes: int
    of_bytes: int
    first: Safe
    kinds: tuple[UnreadKind, ...] = ()  # most bytes first
    hint: Safe = EMPTY_TEXT


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One thing that must hold, and how it stands.

    Attributes:
        name: what is looked at.
        state: `pass`, `warn` (told, stops nothing), `fail` (exit 1), `person` (exit 3).
        figure: what was found, as people read it: "196/200 (98.0 %)".
        limit: what is wanted: "at least 98 %".
        detail: places and values, redacted; "" if there is nothing to add.
    """

    name: str
    state: Literal["pass", "warn", "fail", "person"]
    figure: str
    limit: str
    detail: Safe = EMPTY_TEXT


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSummary:
    """What people want to know about a source; of `left_out_count` files the first are named."""

    name: Safe
    files: int
    bytes: int
    left_out: tuple[SafeLeftOut, ...]
    left_out_count: int
    unread: Annotated[UnreadFiles | None, OMIT] = None
    unconverted: Annotated[UnreadFiles | None, OMIT] = None  # images, sounds and binary files, too
    other_bytes: Annotated[int, OMIT] = 0  # of data files of another shape
    tables: Annotated[tuple[Safe, ...], OMIT] = ()  # the first, each with the version that is read
    read: Annotated[tuple[Safe, ...], OMIT] = ()  # the first of several files, each with its rows
    gates: Annotated[tuple[Gate, ...], OMIT] = ()  # of what the files are


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleSummary:
    """How many rows were drawn and could not be read; `total_rows` is None where unknown."""

    rows: int
    bad: int
    complete: bool
    total_rows: int | None
    gates: Annotated[tuple[Gate, ...], OMIT] = ()  # of what the rows are


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference between the shape that a mapping was made for and that of the data now.

    Attributes:
        path: in the mapping language; for a fact its name.
        before, after: types, names of speakers or the fact; "" if there is none.
        stops: the run stops because of it; otherwise it is only reported.
        names: the new speakers.
    """

    path: str
    before: str
    after: str
    what: Literal["appeared", "vanished", "type", "role value", "fact"]
    stops: bool
    names: Annotated[tuple[str, ...], UNSTORED] = ()

    @property
    def values_text(self) -> str:
        """Return the values before and after in parentheses."""
        if self.before and self.after:
            return f"({self.before} → {self.after})"
        return f"({self.before or self.after})"


SafeChange = NewType("SafeChange", Change)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What a mapping made of the sample; `drift` holds the first `changes`, None = unknown.

    `record` says of what one record is made, as people read it.
    """

    rows: int
    ok_rows: int
    unreadable: int = 0
    records: int
    coverage: float
    ragged: int = 0
    failures: dict[str, int]
    paths: tuple[PathReach, ...] = ()
    content: Content = field(default_factory=Content)
    loss: Annotated[Loss, OMIT] = NO_LOSS
    signs: Annotated[dict[str, int] | None, OMIT] = None  # rows by sign, None: none has one
    messages: int = 0
    dropped: int = 0
    warnings: tuple[Safe, ...] = ()
    drift: Annotated[tuple[SafeChange, ...] | None, OMIT] = None
    changes: Annotated[int | None, OMIT] = None
    gates: Annotated[tuple[Gate, ...], OMIT] = ()  # of the places that the mapping reads
    record: Annotated[Safe, OMIT] = EMPTY_TEXT


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A model's answer that passes, kept while the model looks at its records."""

    proposal: SafeProposal
    check: Check | None
    turn: Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinion:
    """The rules' proposal beside a model's, and whether both make the same records.

    `unbacked` holds, by gate, what only the model says where they do not.
    """

    agrees: bool
    proposal: SafeProposal
    unbacked: Annotated[dict[str, tuple[Safe, ...]] | None, OMIT] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """Why no model could be asked: `kind` is `budget` or `model`, `fault` a model error's kind."""

    kind: Literal["budget", "model"]
    where: str
    why: Safe
    hint: str
    fault: Annotated[str | None, OMIT] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Halted:
    """What stopped a conversion at the gates on all rows: by gate its rows, and why in words."""

    counts: dict[str, int]
    why: Safe


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """What was decided, and why.

    `decision` is `approve`, `edit`, `reject`, `again` (the answer could not be read), `held` (a
    gate failed), `person` (only a person may approve) or `dry_run`.
    """

    decision: Literal["approve", "edit", "reject", "again", "held", "person", "dry_run"]
    why: Safe = EMPTY_TEXT


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenTokens:
    """The counts of a manifest's token files."""

    documents: int
    sequences: int
    tokens: int
    characters: int
    rejected: int
    dtype: str
    eod_id: int | None
    vocabulary: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenWarnings:
    """The warnings of a manifest: `meta` and `paths` count records and rows by name."""

    mapping: tuple[str, ...] = ()
    meta: dict[str, int] = field(default_factory=dict)
    paths: dict[str, dict[str, int]] = field(default_factory=dict)
    non_finite: Annotated[NonFinite | None, OMIT] = None
    signs: Annotated[dict[str, SignRows] | None, OMIT] = None
    data_uris: Annotated[dict[str, int] | None, OMIT] = None

    def texts(self) -> Iterator[str]:
        """Yield what people read of what few results have."""
        if self.non_finite:
            yield non_finite_text(self.non_finite)
        yield from (sign_text(name, found) for name, found in (self.signs or {}).items())
        for field_name, count in (self.data_uris or {}).items():
            yield f"{count_text(count, 'data URI')} taken out of the HTML in {field_name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The counts of a manifest; its lists of files and inputs stay on disk."""

    decision: str
    rows: dict[str, int]
    records: dict[str, int]
    rejects: dict[str, int]
    tokens: WrittenTokens | None
    warnings: WrittenWarnings


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a conversion wrote, and where."""

    out: str
    already_done: bool
    manifest: Written
    notes: tuple[str, ...]
    first_rejects: tuple[Safe, ...]


# How a run ended: `blocked` by a gate, `waiting` as only a person may approve, a `budget` used up,
# `rejected` by a person, `unusable` where no mapping could be run, or `failed` at a server.
RunStatus: TypeAlias = Literal[
    "done",
    "already_done",
    "dry_run",
    "irrelevant",
    "unmappable",
    "blocked",
    "waiting",
    "budget",
    "rejected",
    "unusable",
    "failed",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The run as it stands, for people and programs."""

    status: RunStatus
    why: Safe
    source: Annotated[SourceSummary | None, EMPTY]
    decision: str | None
    mapper: str | None
    confidence: float | None
    reason: Safe | None
    evidence: tuple[Evidence, ...]
    mapping: Mapping | None
    check: Check | None
    problems: tuple[SafeProblem, ...]
    gates: tuple[Gate, ...]
    opinion: Opinion | None
    usage: Annotated[Usage | None, EMPTY]
    notes: tuple[str, ...]
    result: Result | None


class State(TypedDict, total=False):
    """What a run knows, in the order in which the steps fill it.

    Attributes:
        order: what was ordered; absent where a person's words were no order.
        ordered: the order that the last run was begun with; another one in `order` is a new one.
        served: whether a person can be asked at any time, as in a server's run.
        messages: what a person typed at a server's client, and what was answered.
        proposal: its mapping is bound to version 2 once it is validated.
        turn: the last turn, without its proposal.
        attempts: what was tried and what was wrong with it, for the next try.
        problems: what is wrong with the proposal.
        check: what the mapping makes of the sample, None if it cannot be run.
        usage: what asking a model took so far.
        seen: a person has approved what the sample shows, also by giving the mapping to `run`.
        halted: the gates on all rows that stopped the conversion.
        approved: the counts of these that a person has approved.
        looked: the answer that the model was shown the records of.
        outcome: what the doors print; the last step makes it.
    """

    order: Order
    ordered: Order
    served: bool
    messages: Annotated[list[Message], add_messages]
    source: SourceSummary
    sample: SampleSummary
    proposal: SafeProposal | None
    turn: Turn
    attempts: tuple[Attempt, ...]
    problems: tuple[SafeProblem, ...]
    check: Check | None
    usage: Annotated[Usage | None, EMPTY]
    stopped: Annotated[Stopped | None, EMPTY]
    looked: Answer | None
    opinion: Opinion | None
    review: Annotated[Review | None, EMPTY]
    seen: bool
    halted: Annotated[Halted | None, EMPTY]
    approved: dict[str, int]
    result: Annotated[Result | None, EMPTY]
    outcome: Outcome
