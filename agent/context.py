"""What the nodes work with and no checkpoint holds: opened sources, samples, mappers, progress.

LangGraph hands it to every node as the run's context. A graph that is run without one (by a server)
makes its own from the environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingot.agent.mappers import auto, llm
from ingot.agent.mappers.endpoint import Endpoint, configured
from ingot.agent.mappers.proposal import Request
from ingot.agent.mappers.turn import History, Turn, Turner
from ingot.converters.errors import ModelError
from ingot.converters.job import Watch
from ingot.converters.readers import Source, open_source
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.sample import Sample, draw

Opened = tuple[str, SourceSpec]


@dataclass(kw_only=True, eq=False)
class Context:
    """The working set of one run.

    Attributes:
        endpoint: the model to ask, None = none is configured.
        turns: mappers by name, laid over those that there are (tests bring scripted ones).
        progress: told how far a conversion is, None = nobody listens.
    """

    endpoint: Endpoint | None = None
    turns: Mapping[str, Turner] = field(default_factory=dict)
    progress: Watch | None = None
    _sources: dict[Opened, Source] = field(default_factory=dict)
    _samples: dict[Opened, Sample] = field(default_factory=dict)

    def turner(self, name: str) -> Turner:
        """The mapper of that name; `KeyError` for a name that there is not."""
        return {**turners(self.endpoint), **self.turns}[name]

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

    def sample(self, location: str, spec: SourceSpec = SourceSpec()) -> Sample:
        """Rows spread over the source, drawn once per set of facts.

        Raises:
            SourceError: it cannot be read.
        """
        if (location, spec) not in self._samples:
            self._samples[location, spec] = draw(self.source(location, spec))
        return self._samples[location, spec]


def turners(endpoint: Endpoint | None) -> dict[str, Turner]:
    """The mappers that can be asked by name; `endpoint` None = no model is configured."""
    model = llm.mapper(endpoint) if endpoint else None
    return {
        "rules": _rules,
        "llm": model or _no_model,
        "auto": auto.mapper(_rules, model),
    }


def _rules(source: Source, sample: Sample, request: Request, history: History) -> Turn:
    from ingot.agent.mappers.rules.propose import propose

    proposal = propose(source, sample, request)
    return Turn(proposal=proposal, mapper="rules")


def _no_model(source: Source, sample: Sample, request: Request, history: History) -> Turn:
    hint = "name a model with --model or INGOT_MODEL, and set OPENAI_API_KEY or --base-url"
    raise ModelError("llm", "no model is configured", hint)


def from_environment() -> Context:
    """The context of a graph that is run without one."""
    return Context(endpoint=configured(None, None))
