"""What the steps of a run work with: the opened source, who answers. It is never stored."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ingot.agent.privacy import Redactor
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.order import Order, Share
from ingot.agent.proposing.proposal import (
    History,
    Mapper,
    Request,
    Turn,
    auto_mapper,
    model_first_mapper,
)
from ingot.converters.errors import ConversionError, ModelError, SourceError
from ingot.converters.mapping.row_paths import observed_paths
from ingot.converters.progress import Watch
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
    """What one set of facts has ingot read of a location.

    Attributes:
        source: its files.
        sample: rows spread over them, the same ones for facts that are guessed or stated.
        redactor: what is kept and shown of it goes through. It knows what ingot's own reading of
            the files names a secret, whatever this one is.
        redactors: the same by how values are shared.
        readings: what there is of the location beside this.
        hidden: the samples whose secrets `show_sample` hid, by what it was asked.
    """

    source: Source
    sample: Sample
    redactor: Redactor
    redactors: Mapping[str, Redactor]
    readings: "Readings"
    hidden: dict[tuple[SourceSpec, str], Sample | None] = field(default_factory=dict)

    def show_sample(self, order: Order, share: str = "redacted") -> Sample | None:
        """Return the sample with its secrets hidden; None where nothing of it may be shown.

        A reading that cuts or computes values otherwise than the user's or ingot's own is shown
        only where neither has anything to hide, that of a query never.
        """
        files = self.source.spec.files
        own = SourceSpec(format=order.format, query=order.query, files=files)
        if (own, share) not in self.hidden:
            self.hidden[own, share] = self._hide_sample(own, share)
        return self.hidden[own, share]

    def _hide_sample(self, spec: SourceSpec, share: str) -> Sample | None:
        hidden = self.redactors[share].sample(self.sample)
        if share == "raw":
            return hidden
        try:
            own = self.readings.read(spec)
        except SourceError:
            return None
        if is_read_alike(own.source, self.source, self.sample):
            return hidden
        bare = own.redactors[share].sample(own.sample) is own.sample and hidden is self.sample
        return hidden if bare and self.source.spec.query is None else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """What was found at a location, and read of it, by the facts that were stated; each once.

    Attributes:
        location: how it was named when it was opened.
    """

    location: str
    sources: dict[SourceSpec, Source] = field(default_factory=dict)
    opened: dict[SourceSpec, OpenedSource] = field(default_factory=dict)

    def find_files(self, spec: SourceSpec) -> Source:
        """Find the files, of which no row is drawn. Raises SourceError."""
        if spec not in self.sources:
            plain = self.sources.get(SourceSpec())
            source = plain.with_spec(spec) if plain else open_source(self.location, spec)
            self.sources[spec] = source
        return self.sources[spec]

    def read(self, spec: SourceSpec) -> OpenedSource:
        """Find the files, draw their sample, and learn its secrets. Raises SourceError."""
        if spec not in self.opened:
            source, own = self.find_files(spec), SourceSpec(files=spec.files)
            plain: OpenedSource | None = None
            with suppress(SourceError):  # what only the facts of a mapping can read
                plain = self.read(own) if spec != own else None
            sample = self._draw_sample(source)
            known = plain.redactor.rows if plain else ()
            rows = Redactor.of("redacted", source, sample, *known).rows
            redactors = {share: Redactor(share, rows) for share in get_args(Share)}
            self.opened[spec] = OpenedSource(
                source=source,
                sample=sample,
                redactor=redactors["redacted"],
                redactors=redactors,
                readings=self,
            )
        return self.opened[spec]

    def _draw_sample(self, source: Source) -> Sample:
        facts = _known_facts(source)
        alike = [one for one in self.opened.values() if _known_facts(one.source) == facts]
        return alike[0].sample if alike else draw_sample(source)


def _known_facts(source: Source) -> SourceSpec:
    return source.guessed.with_facts(source.spec)


def reading_of(source: Source) -> Readings:
    """Return the readings of a source that was opened elsewhere, under the name of its location."""
    return Readings(location=source.location, sources={source.spec: source})


@lru_cache(maxsize=2)  # a conversation asks again with each line
def list_fields(data: OpenedSource) -> tuple[str, ...]:
    """Return the paths of the sampled rows as mappings name them, those inside JSON texts too."""
    from ingot.agent.proposing.llm.question import shown_inventory

    inside = (one.path for one in shown_inventory(data.source, data.sample).paths)
    rows = observed_paths(row.value for row in data.sample.rows)
    return tuple(dict.fromkeys((*rows, *inside)))


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
        readings: what is known of the location that is ordered.
        data: what is open: the steps work on it.
    """

    asking: "ModelAccess | None" = None
    turns: Mapping[str, Mapper] = field(default_factory=dict)
    progress: Watch | None = None
    root: Path | None = None
    served: bool = False
    store: str | None = None
    cards: Mapping[str, Card] = field(default_factory=dict)
    readings: Readings = field(default_factory=lambda: Readings(location=""))
    data: OpenedSource = field(init=False, repr=False)
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

    def locate(self, order: Order) -> Readings:
        """Return what is known of the ordered location, and forget any other one."""
        if self.readings.location != order.source:
            self.forget()
            self.readings = Readings(location=order.source)
        return self.readings

    def open(self, order: Order) -> OpenedSource:
        """Open the data that is ordered. Raises SourceError."""
        self.data = self.locate(order).read(order.spec)
        return self.data

    def forget(self) -> None:
        """Close what is open: the data may have changed."""
        self.readings = Readings(location="")
        self._rules.clear()


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
