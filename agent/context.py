"""What the nodes work with and no checkpoint holds: opened sources, samples, mappers, progress.

LangGraph hands it to every node as the run's context. A graph that is run without one (by a server)
makes its own from the environment.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ingot.agent.cards import Card
from ingot.agent.checkpoints import home
from ingot.agent.mappers import auto
from ingot.agent.mappers.asking import Asking
from ingot.agent.mappers.proposal import Request
from ingot.agent.mappers.turn import History, Turn, Turner
from ingot.agent.model.endpoint import configured
from ingot.agent.model.store import Store
from ingot.converters.bind import observed_paths
from ingot.converters.errors import ModelError
from ingot.converters.job import Watch
from ingot.converters.readers import Source, open_source
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.sample import Sample, draw

Opened = tuple[str, SourceSpec]
ROOT = "INGOT_SERVE_ROOT"


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
            `ingot.agent.cards`.
    """

    asking: Asking | None = None
    turns: Mapping[str, Turner] = field(default_factory=dict)
    progress: Watch | None = None
    root: Path | None = None
    served: bool = False
    cards: Mapping[str, Card] = field(default_factory=dict)
    _sources: dict[Opened, Source] = field(default_factory=dict)
    _samples: dict[Opened, Sample] = field(default_factory=dict)
    _fields: dict[Opened, tuple[str, ...]] = field(default_factory=dict)
    _rules: dict[tuple[int, Request], Turn] = field(default_factory=dict)
    _tokenizers: set[str] = field(default_factory=set)

    @property
    def mappers(self) -> list[str]:
        """The names that `turner` knows."""
        return sorted({"auto", "llm", "rules", *self.turns})

    def turner(self, name: str) -> Turner:
        """The mapper of that name; `KeyError` for a name that there is not."""
        rules = self.turns.get("rules", self.rules)
        model = _model(self.asking, rules, self.cards) if self.asking else None
        known = {
            "rules": rules,
            "auto": auto.auto(rules, model),
            "llm": auto.first(model, rules) if model else _no_model,
        }
        return {**known, **self.turns}[name]

    def rules(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        """The rules' turn, made once per sample and request."""
        from ingot.agent.mappers.rules.propose import propose

        key = (id(sample), request)
        if key not in self._rules:
            self._rules[key] = Turn(proposal=propose(source, sample, request), mapper="rules")
        return self._rules[key]

    def source(self, location: str, spec: SourceSpec = SourceSpec()) -> Source:
        """The source, opened once per set of facts.

        Raises:
            SourceError: it cannot be read.
        """
        if (location, spec) not in self._sources:
            known = self._sources.get((location, SourceSpec()))
            found = known.with_spec(spec) if known else open_source(location, spec)
            self._sources[location, spec] = found
        return self._sources[location, spec]

    def bring(self, source: Source) -> None:
        """Use a source that was opened elsewhere wherever its location is named."""
        self._sources[source.location, source.spec] = source

    def forget(self) -> None:
        """Open sources and draw samples anew: the data may have changed."""
        self._sources.clear()
        self._samples.clear()
        self._fields.clear()
        self._rules.clear()

    def check_tokenizer(self, file: str) -> None:
        """See that a tokenizer serves, once.

        Raises:
            ConversionError: the file is missing, is none, or has no end-of-document token.
        """
        from ingot.converters.megatron.tokenizer import find_eod, load_tokenizer

        if file not in self._tokenizers:
            find_eod(load_tokenizer(file))
            self._tokenizers.add(file)

    def fields(self, location: str, spec: SourceSpec = SourceSpec()) -> tuple[str, ...]:
        """The paths of the sampled rows as mappings name them, those inside texts of JSON too.

        Raises:
            SourceError: it cannot be read.
        """
        from ingot.agent.mappers.question import inventory

        if (location, spec) not in self._fields:
            source, sample = self.drawn(location, spec)
            inside = (one.path for one in inventory(source, sample).paths)
            rows = observed_paths(row.value for row in sample.rows)
            self._fields[location, spec] = tuple(dict.fromkeys((*rows, *inside)))
        return self._fields[location, spec]

    def drawn(self, location: str, spec: SourceSpec = SourceSpec()) -> tuple[Source, Sample]:
        """The source and its sample.

        Raises:
            SourceError: it cannot be read.
        """
        return self.source(location, spec), self.sample(location, spec)

    def sample(self, location: str, spec: SourceSpec = SourceSpec()) -> Sample:
        """Rows spread over the source, drawn once per set of facts.

        Raises:
            SourceError: it cannot be read.
        """
        if (location, spec) not in self._samples:
            self._samples[location, spec] = draw(self.source(location, spec))
        return self._samples[location, spec]


def _model(asking: Asking, rules: Turner, cards: Mapping[str, Card]) -> Turner:
    from ingot.agent.mappers import llm  # what is shown to a model takes a while to import

    return llm.mapper(asking, rules, cards)


def _no_model(source: Source, sample: Sample, request: Request, history: History) -> Turn:
    hint = "name a model with --model or INGOT_MODEL, and set OPENAI_API_KEY or --base-url"
    raise ModelError("llm", "no model is configured", hint)


def from_environment() -> Context:
    """The context of a graph that is run without one."""
    endpoint, root = configured(None, None), os.environ.get(ROOT)
    asking = Asking(endpoint=endpoint, store=Store(home())) if endpoint else None
    return Context(asking=asking, root=Path(root) if root else None, served=True)


def of_run(run: str | None) -> Context:
    """The context of a server's run: its nodes share what was opened and drawn."""
    return _kept(run) if run else from_environment()


@lru_cache(maxsize=8)  # runs at a time; one that is older draws its sample again
def _kept(run: str) -> Context:
    return from_environment()
