"""What the steps of a run work with: opened sources, samples, caches. It is never stored."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.agent.privacy import Door
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.order import Order
from ingot.agent.proposing.proposal import (
    History,
    Mapper,
    Request,
    Turn,
    auto_mapper,
    model_first_mapper,
)
from ingot.converters.errors import ConversionError, ModelError, SourceError
from ingot.converters.mapping.bind import observed_paths
from ingot.converters.progress import Watch
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import Sample, draw_sample

if TYPE_CHECKING:
    from ingot.agent.model.budget import Ledger
    from ingot.agent.proposing.llm.mapper import AskSettings, ModelAccess

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


def open_model(
    asked: "AskSettings",
    *,
    ledger: "Ledger | None" = None,
    shared: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> "ModelAccess":
    """Return the access to a model, with the answers that the state folder keeps."""
    from ingot.agent.model.budget import Ledger
    from ingot.agent.model.cache import Store
    from ingot.agent.proposing.llm.mapper import ModelAccess

    return ModelAccess(
        endpoint=asked.endpoint,
        store=Store(state_home()),
        ledger=ledger or Ledger(run=asked.run, data_set=asked.data_set, price=asked.price),
        remembered=asked.remembered,
        shared=shared,
        tell=tell,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedSource:
    """A source as it is read by one set of facts; all readings of it know each other.

    Attributes:
        location: how the source was named when it was opened.
    """

    location: str
    source: Source
    _readings: dict[SourceSpec, "OpenedSource"] = field(default_factory=dict)
    _samples: dict[SourceSpec, Sample] = field(default_factory=dict)
    _redactors: dict[str, Door] = field(default_factory=dict)
    _shown: dict[tuple[SourceSpec, str], Sample | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Let the other readings know this one."""
        self._readings[self.source.spec] = self

    def read_as(self, spec: SourceSpec) -> "OpenedSource":
        """Return the reading by other facts. Raises SourceError."""
        if spec not in self._readings:
            plain = self._readings.get(SourceSpec())
            source = plain.source.with_spec(spec) if plain else open_source(self.location, spec)
            replace(self, source=source, _redactors={}, _shown={})
        return self._readings[spec]

    @cached_property
    def sample(self) -> Sample:
        """Rows spread over the source: the same ones for facts that are guessed or stated."""
        guessed, stated = self.source.guessed.to_document(), self.source.spec.to_document()
        facts = SourceSpec.from_document({**guessed, **stated})
        if facts not in self._samples:
            self._samples[facts] = draw_sample(self.source)
        return self._samples[facts]

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The paths of the sampled rows as mappings name them, those inside texts of JSON too."""
        from ingot.agent.proposing.llm.question import shown_inventory

        inside = (one.path for one in shown_inventory(self.source, self.sample).paths)
        rows = observed_paths(row.value for row in self.sample.rows)
        return tuple(dict.fromkeys((*rows, *inside)))

    def redactor(self, share: str = "redacted") -> Door:
        """Return the door that what is kept and shown of the source goes through.

        It knows what ingot's own reading of the files names a secret, whatever this one is.
        """
        if share not in self._redactors:
            spec, known = self.source.spec, list[Json]()
            own = SourceSpec(files=spec.files)
            with suppress(SourceError):  # what only the facts of a mapping can read
                known = [*self.read_as(own).redactor(share).rows] if spec != own else []
            self._redactors[share] = Door.of(share, self.source, self.sample, *known)
        return self._redactors[share]

    def shown(self, order: Order, share: str = "redacted") -> Sample | None:
        """Return the sample with its secrets hidden; None where nothing of it may be shown.

        A reading that cuts or computes values otherwise than the user's or ingot's own is shown
        only where neither has anything to hide, that of a query never.
        """
        files = self.source.spec.files
        own = SourceSpec(format=order.format, query=order.query, files=files)
        if (own, share) not in self._shown:
            self._shown[own, share] = self._hide_sample(own, share)
        return self._shown[own, share]

    def _hide_sample(self, spec: SourceSpec, share: str) -> Sample | None:
        hidden = self.redactor(share).sample(self.sample)
        if share == "raw":
            return hidden
        try:
            own = self.read_as(spec)
            whole = own.sample
        except SourceError:
            return None
        if is_read_alike(own.source, self.source, self.sample):
            return hidden
        bare = own.redactor(share).sample(whole) is whole and hidden is self.sample
        return hidden if bare and self.source.spec.query is None else None


@dataclass(kw_only=True, eq=False)
class Context:
    """The working set of one run.

    Attributes:
        asking: how a model is asked, None = none is configured.
        turns: mappers by name, laid over those that there are (tests bring scripted ones).
        progress: told how far a conversion is, None = nobody listens.
        root: the folder that an order must not leave, None = any place will do.
        served: whether this is a server's run, whose person can be asked at any time.
        store: URL for the result in place of the order's folder; lakes set it.
        cards: what is said beside the data, by the location that is ordered; evidence, see
            `ingot.agent.proposing.cards`.
        opened: what the run works on, as its order has it read; None = it is not open yet.
    """

    asking: "ModelAccess | None" = None
    turns: Mapping[str, Mapper] = field(default_factory=dict)
    progress: Watch | None = None
    root: Path | None = None
    served: bool = False
    store: str | None = None
    cards: Mapping[str, Card] = field(default_factory=dict)
    opened: OpenedSource | None = None
    _rules: dict[tuple[int, Request], Turn] = field(default_factory=dict)

    def check_mapper(self, order: Order) -> None:
        """Check that there is a mapper of the name that an order gives. Raises ConversionError."""
        names = sorted({"auto", "llm", "rules", *self.turns})
        if order.mapping is None and order.mapper not in names:
            problem = f"{order.mapper[:80]!r} is not one of {', '.join(names)}"
            raise ConversionError("mapper", problem)

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

    def ask_rules(self, request: Request, read: OpenedSource | None = None) -> Turn:
        """Return what the rules say of what is open, or of another reading of it."""
        read = read or self.data
        return self.mapper_named("rules")(read.source, read.sample, request, ())

    def rules(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        """The rules' turn, made once per sample and request."""
        from ingot.agent.proposing.rules.mapper import propose

        key = (id(sample), request)
        if key not in self._rules:
            self._rules[key] = Turn(proposal=propose(source, sample, request), mapper="rules")
        return self._rules[key]

    def open(self, order: Order) -> OpenedSource:
        """Open what is ordered, unless it is open. Raises SourceError."""
        if self.opened is None or self.opened.location != order.source:
            self.forget()
            self.opened = open_data(order.source, order.spec)
        self.opened = self.opened.read_as(order.spec)
        return self.opened

    @property
    def data(self) -> OpenedSource:
        """What is open."""
        if self.opened is None:
            raise ValueError("no source is open")
        return self.opened

    def forget(self) -> None:
        """Close what is open: the data may have changed."""
        self.opened = None
        self._rules.clear()


def open_data(location: str, spec: SourceSpec = SourceSpec()) -> OpenedSource:
    """Open a source, read by these facts. Raises SourceError."""
    return OpenedSource(location=location, source=open_source(location, spec))


def is_read_alike(known: Source, other: Source, sample: Sample) -> bool:
    """Whether the other reading has the values of the known one, and the names they stand under."""
    ways = [
        ([(file.name, file.facts) for file in one.files], one.spec.query, one.spec.html)
        for one in (known, other)
    ]
    named = known.spec.root == other.spec.root or all(
        isinstance(row.value, dict) for row in sample.rows
    )
    return ways[0] == ways[1] and named


def _model_mapper(asking: "ModelAccess", rules: Mapper, cards: Mapping[str, Card]) -> Mapper:
    from ingot.agent.proposing.llm import mapper  # what is shown to a model takes a while to import

    return mapper.llm_mapper(asking, rules, cards)


def _refuse_model(source: Source, sample: Sample, request: Request, history: History) -> Turn:
    hint = "name a model with --model or INGOT_MODEL, and set OPENAI_API_KEY or --base-url"
    raise ModelError("llm", "no model is configured", hint)
