"""What the steps of a run work with: opened sources, samples, caches. It is never stored."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import Sample, draw_sample

if TYPE_CHECKING:
    from ingot.agent.proposing.llm.mapper import ModelAccess

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


OpenedKey = tuple[str, SourceSpec]


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
    """

    asking: "ModelAccess | None" = None
    turns: Mapping[str, Mapper] = field(default_factory=dict)
    progress: Watch | None = None
    root: Path | None = None
    served: bool = False
    store: str | None = None
    cards: Mapping[str, Card] = field(default_factory=dict)
    _sources: dict[OpenedKey, Source] = field(default_factory=dict)
    _samples: dict[OpenedKey, Sample] = field(default_factory=dict)
    _fields: dict[OpenedKey, tuple[str, ...]] = field(default_factory=dict)
    _doors: dict[tuple[str, SourceSpec, str], Door] = field(default_factory=dict)
    _shown: dict[tuple[str, SourceSpec, SourceSpec, str], Sample | None] = field(
        default_factory=dict
    )
    _rules: dict[tuple[int, Request], Turn] = field(default_factory=dict)
    _tokenizers: set[str] = field(default_factory=set)

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
        held = (self._sources, self._samples, self._fields, self._doors, self._shown, self._rules)
        for kept in held:
            kept.clear()

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
        """Rows spread over the source, drawn once per set of facts, guessed or stated."""
        source = self.source(location, spec)
        facts = SourceSpec.from_document({**source.guessed.to_document(), **spec.to_document()})
        if (location, facts) not in self._samples:
            self._samples[location, facts] = draw_sample(source)
        return self._samples[location, facts]

    def door(self, location: str, spec: SourceSpec = SourceSpec(), share: str = "redacted") -> Door:
        """What is kept and shown of a source goes through it.

        It knows what ingot's own reading of the files names a secret, whatever other one is asked.
        """
        if (location, spec, share) not in self._doors:
            read, own = self.source_and_sample(location, spec), SourceSpec(files=spec.files)
            known: list[Door] = []
            with suppress(SourceError):  # what only the facts of a mapping can read
                known += [self.door(location, own, share)] if spec != own else []
            more = (row for one in known for row in one.rows)
            self._doors[location, spec, share] = Door.of(share, *read, *more)
        return self._doors[location, spec, share]

    def shown_sample(
        self, order: Order, spec: SourceSpec, share: str = "redacted"
    ) -> Sample | None:
        """The sample of a reading with its secrets hidden; None where nothing of it may be shown.

        A reading that cuts or computes values otherwise than the user's or ingot's own is shown
        only where neither has anything to hide, that of a query never.
        """
        own = SourceSpec(format=order.format, query=order.query, files=spec.files)
        key = (order.source, spec, own, share)
        if key not in self._shown:
            self._shown[key] = self._hide_sample(*key)
        return self._shown[key]

    def _hide_sample(
        self, location: str, spec: SourceSpec, own: SourceSpec, share: str
    ) -> Sample | None:
        source, sample = self.source_and_sample(location, spec)
        hidden = self.door(location, spec, share).sample(sample)
        if share == "raw":
            return hidden
        try:
            known, whole = self.source_and_sample(location, own)
        except SourceError:
            return None
        if is_read_alike(known, source, sample):
            return hidden
        bare = self.door(location, own, share).sample(whole) is whole and hidden is sample
        return hidden if bare and spec.query is None else None


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
