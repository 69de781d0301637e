"""What the graph remembers between its nodes: typed here, plain JSON in the checkpoints, no rows.

Also the file of the checkpoints, one SQLite file under INGOT_HOME that only its owner can read, and
the messages of a served run: plain objects, as clients send them, each with an id; and the context,
what the nodes work with and no checkpoint holds, which LangGraph hands to every node.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from sqlite3 import Error
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from ingot.agent.model.budget import Usage
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import configured_endpoint
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.order import Order as Order
from ingot.agent.proposing.proposal import (
    Attempt,
    Evidence,
    History,
    Mapper,
    Proposal,
    Request,
    Turn,
    auto_mapper,
    model_first_mapper,
)
from ingot.converters.errors import ModelError, Problem
from ingot.converters.json_yaml import EMPTY, OMIT, UNSTORED
from ingot.converters.mapping.bind import observed_paths
from ingot.converters.mapping.check import PathCoverage
from ingot.converters.output.sqlite_file import database_error, open_database
from ingot.converters.progress import Watch
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.facts import LeftOut, SourceSpec
from ingot.converters.sources.sample import Sample, draw_sample
from ingot.converters.sources.text_kinds import Content

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from ingot.agent.proposing.llm.mapper import ModelAccess


Channels = dict[str, Json]  # a `State` as LangGraph keeps it
Message = dict[str, Json]


def add_messages(old: Sequence[Message], new: Json) -> list[Message]:
    """The conversation with what was said last: a message, a person's text, or a list of them."""
    said = new if isinstance(new, list) else [new]
    start = len(old)
    return [*old, *(_to_message(one, start + place) for place, one in enumerate(said))]


def _to_message(one: Json, place: int) -> Message:
    message = one if isinstance(one, dict) else {"type": "human", "content": str(one)}
    return {**message, "id": message.get("id") or f"message-{place}"}


def answer_message(text: str) -> Message:
    """A message of the run."""
    return {"type": "ai", "content": text}


RUNS_FILE = "runs.sqlite"


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of ingot's own state: INGOT_HOME, or a folder in the user's state folder."""
    named = environment.get("INGOT_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ingot"
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "ingot"


@contextmanager
def open_checkpoints(folder: Path | None = None) -> Iterator["SqliteSaver"]:
    """The checkpointer over the state folder's file, made on first use with mode 600."""
    # Only plain types are ever read back, whatever stands in the file.
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    file = (folder or state_home()) / RUNS_FILE
    connection = open_database(file)
    try:
        yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    except Error as error:  # of the database, such as a full disk
        raise database_error(file, error) from error
    finally:
        connection.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSummary:
    """What people want to know about a source; of `left_out_count` files the first are named."""

    name: str
    files: int
    bytes: int
    left_out: tuple[LeftOut, ...]
    left_out_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleSummary:
    """How many rows were drawn and could not be read; `total_rows` is None where unknown."""

    rows: int
    bad: int
    complete: bool
    total_rows: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference between the shape that a mapping was made for and that of the data now.

    Attributes:
        path: in the mapping language; for a fact its name.
        before, after: types, names of speakers or the fact; "" where there is none.
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
        """Before and after in parentheses."""
        if self.before and self.after:
            return f"({self.before} → {self.after})"
        return f"({self.before or self.after})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What a mapping made of the sample: the counts of a `CheckReport`, no rows, no secrets.

    `drift` holds the first of the `changes` since a mapping file was made; None = not compared.
    """

    rows: int
    ok_rows: int
    unreadable: int = 0
    records: int
    coverage: float
    ragged: int = 0
    failures: dict[str, int]
    paths: tuple[PathCoverage, ...] = ()
    content: Content = field(default_factory=Content)
    messages: int = 0
    dropped: int = 0
    warnings: tuple[str, ...] = ()
    drift: Annotated[tuple[Change, ...] | None, OMIT] = None
    changes: Annotated[int | None, OMIT] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One thing that must hold, and how it stands.

    Attributes:
        name: what is looked at.
        state: `pass`, `warn` (told, stops nothing), `fail` (exit 1), `person` (exit 3).
        figure: what was found, as people read it: "196/200 (98.0 %)".
        limit: what is wanted: "at least 98 %".
        detail: places and values, redacted; "" where there is nothing to add.
    """

    name: str
    state: Literal["pass", "warn", "fail", "person"]
    figure: str
    limit: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A model's answer that passes, kept while the model looks at its records."""

    proposal: Proposal
    check: Check | None
    turn: Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinion:
    """The rules' proposal beside a model's, and whether both make the same records."""

    agrees: bool
    proposal: Proposal


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """Why no model could be asked: `kind` is `budget` or `model`, `fault` a model error's kind."""

    kind: Literal["budget", "model"]
    where: str
    why: str
    hint: str
    fault: Annotated[str | None, OMIT] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """What was decided, and why.

    `decision` is `approve`, `edit`, `reject`, `again` (the answer could not be read), `held` (a
    gate failed), `person` (only a person may approve) or `dry_run`.
    """

    decision: Literal["approve", "edit", "reject", "again", "held", "person", "dry_run"]
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The counts of a manifest; its lists of files and inputs stay on disk."""

    decision: str
    rows: dict[str, int]
    records: dict[str, Json]
    rejects: dict[str, int]
    tokens: dict[str, Json] | None
    warnings: dict[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a conversion wrote, and where."""

    out: str
    already_done: bool
    manifest: Written
    notes: tuple[str, ...]
    first_rejects: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The run as it stands, for people and programs; `status` as `run_status` says."""

    status: str
    why: str
    source: Annotated[SourceSummary | None, EMPTY]
    decision: str | None
    mapper: str | None
    confidence: float | None
    reason: str | None
    evidence: tuple[Evidence, ...]
    mapping: MappingDocument | None
    check: Check | None
    problems: tuple[Problem, ...]
    gates: tuple[Gate, ...]
    opinion: Opinion | None
    usage: Annotated[Usage | None, EMPTY]
    notes: tuple[str, ...]
    result: Result | None


class State(TypedDict, total=False):
    """The graph's channels, in the order in which the nodes fill them.

    Attributes:
        order: what was ordered; absent where a person's words were no order.
        ordered: the order that the last run was begun with; another one in `order` is a new one.
        served: whether a person can be asked at any time, as in a server's run.
        messages: what a person typed at a server's client, and what was answered.
        key: what the run was begun with, see `session.session_key`.
        proposal: its mapping is bound to version 2 once it is validated.
        turn: the last turn, without its proposal.
        attempts: what was tried and what was wrong with it, for the next try.
        problems: what is wrong with the proposal.
        check: what the mapping makes of the sample, None where it cannot be run.
        usage: what asking a model took so far.
        looked: the answer that the model was shown the records of.
        outcome: what the doors print; the last node makes it.
    """

    order: Order
    ordered: Order
    served: bool
    messages: Annotated[list[Message], add_messages]
    key: str
    source: SourceSummary
    sample: SampleSummary
    proposal: Proposal | None
    turn: Turn
    attempts: tuple[Attempt, ...]
    problems: tuple[Problem, ...]
    check: Check | None
    usage: Annotated[Usage | None, EMPTY]
    stopped: Annotated[Stopped | None, EMPTY]
    looked: Answer | None
    opinion: Opinion | None
    review: Annotated[Review | None, EMPTY]
    result: Annotated[Result | None, EMPTY]
    outcome: Outcome


OpenedKey = tuple[str, SourceSpec]
SERVE_ROOT = "INGOT_SERVE_ROOT"


@dataclass(kw_only=True, eq=False)
class Context:
    """The working set of one run.

    Attributes:
        asking: how a model is asked, None = none is configured.
        turns: mappers by name, laid over those that there are (tests bring scripted ones).
        progress: told how far a conversion is, None = nobody listens.
        root: the folder that an order must not leave, None = any place will do.
        served: whether this is a server's run, whose person can be asked at any time.
        cards: what is said beside the data, by the location that is ordered; evidence, see
            `ingot.agent.proposing.cards`.
    """

    asking: "ModelAccess | None" = None
    turns: Mapping[str, Mapper] = field(default_factory=dict)
    progress: Watch | None = None
    root: Path | None = None
    served: bool = False
    cards: Mapping[str, Card] = field(default_factory=dict)
    _sources: dict[OpenedKey, Source] = field(default_factory=dict)
    _samples: dict[OpenedKey, Sample] = field(default_factory=dict)
    _fields: dict[OpenedKey, tuple[str, ...]] = field(default_factory=dict)
    _rules: dict[tuple[int, Request], Turn] = field(default_factory=dict)
    _tokenizers: set[str] = field(default_factory=set)

    @property
    def mappers(self) -> list[str]:
        """The names that `turner` knows."""
        return sorted({"auto", "llm", "rules", *self.turns})

    def mapper_named(self, name: str) -> Mapper:
        """The mapper of that name; `KeyError` for a name that there is not."""
        rules = self.turns.get("rules", self.rules)
        model = _model_mapper(self.asking, rules, self.cards) if self.asking else None
        known = {
            "rules": rules,
            "auto": auto_mapper(rules, model),
            "llm": model_first_mapper(model, rules) if model else _refuse_model,
        }
        return {**known, **self.turns}[name]

    def rules(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        """The rules' turn, made once per sample and request."""
        from ingot.agent.proposing.rules.mapper import propose

        key = (id(sample), request)
        if key not in self._rules:
            self._rules[key] = Turn(proposal=propose(source, sample, request), mapper="rules")
        return self._rules[key]

    def source(self, location: str, spec: SourceSpec = SourceSpec()) -> Source:
        """The source, opened once per set of facts."""
        if (location, spec) not in self._sources:
            known = self._sources.get((location, SourceSpec()))
            found = known.with_spec(spec) if known else open_source(location, spec)
            self._sources[location, spec] = found
        return self._sources[location, spec]

    def use_source(self, source: Source) -> None:
        """Use a source that was opened elsewhere wherever its location is named."""
        self._sources[source.location, source.spec] = source

    def forget(self) -> None:
        """Open sources and draw samples anew: the data may have changed."""
        self._sources.clear()
        self._samples.clear()
        self._fields.clear()
        self._rules.clear()

    def check_tokenizer(self, file: str) -> None:
        """See that a tokenizer serves, once."""
        from ingot.converters.megatron.tokenizer import find_eod, load_tokenizer

        if file not in self._tokenizers:
            find_eod(load_tokenizer(file))
            self._tokenizers.add(file)

    def fields(self, location: str, spec: SourceSpec = SourceSpec()) -> tuple[str, ...]:
        """The paths of the sampled rows as mappings name them, those inside texts of JSON too."""
        from ingot.agent.proposing.llm.question import shown_inventory

        if (location, spec) not in self._fields:
            source, sample = self.source_and_sample(location, spec)
            inside = (one.path for one in shown_inventory(source, sample).paths)
            rows = observed_paths(row.value for row in sample.rows)
            self._fields[location, spec] = tuple(dict.fromkeys((*rows, *inside)))
        return self._fields[location, spec]

    def source_and_sample(
        self, location: str, spec: SourceSpec = SourceSpec()
    ) -> tuple[Source, Sample]:
        """The source and its sample."""
        return self.source(location, spec), self.sample(location, spec)

    def sample(self, location: str, spec: SourceSpec = SourceSpec()) -> Sample:
        """Rows spread over the source, drawn once per set of facts."""
        if (location, spec) not in self._samples:
            self._samples[location, spec] = draw_sample(self.source(location, spec))
        return self._samples[location, spec]


def _model_mapper(asking: "ModelAccess", rules: Mapper, cards: Mapping[str, Card]) -> Mapper:
    from ingot.agent.proposing.llm import mapper  # what is shown to a model takes a while to import

    return mapper.llm_mapper(asking, rules, cards)


def _refuse_model(source: Source, sample: Sample, request: Request, history: History) -> Turn:
    hint = "name a model with --model or INGOT_MODEL, and set OPENAI_API_KEY or --base-url"
    raise ModelError("llm", "no model is configured", hint)


def context_from_environment() -> Context:
    """The context of a graph that is run without one."""
    endpoint, root = configured_endpoint(None, None), os.environ.get(SERVE_ROOT)
    if endpoint:
        from ingot.agent.proposing.llm.mapper import ModelAccess
    asking = ModelAccess(endpoint=endpoint, store=Store(state_home())) if endpoint else None
    return Context(asking=asking, root=Path(root) if root else None, served=True)


def context_of_run(run: str | None) -> Context:
    """The context of a server's run: its nodes share what was opened and drawn."""
    return _cached_context(run) if run else context_from_environment()


@lru_cache(maxsize=8)  # runs at a time; one that is older draws its sample again
def _cached_context(run: str) -> Context:
    return context_from_environment()
