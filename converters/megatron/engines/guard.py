"""Engines as a build uses them: what is not the reference itself is watched and kept in bounds."""

from functools import partial
from typing import Final

import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import Encoded, Engine, EngineWrongError
from ingot.converters.megatron.engines.fast import FAST, FastEngine, NotOfferedError, open_fast
from ingot.converters.megatron.engines.memory import Rebuilt
from ingot.converters.megatron.engines.reference import reference
from ingot.converters.megatron.engines.routing import Routed, needles
from ingot.converters.megatron.engines.sampling import Sampler, share
from ingot.converters.megatron.engines.verdicts import Case, case_of, failed_on, keep
from ingot.converters.megatron.monitor import Monitor
from ingot.converters.megatron.tokenizer import TokenizerFile

# A text that an engine got wrong is told from its beginning.
_SHOWN: Final = 200


def open_engine(
    loaded: TokenizerFile,
    choice: Choice,
    *,
    threads: int = 1,
    memory_limit: int,
    monitor: Monitor,
) -> Engine:
    """The chosen engine, for one thread.

    Args:
        loaded: the tokenizer.
        choice: what `choose` decided.
        threads: threads the library may use by itself; 1 = the calling one.
        memory_limit: bytes that the caches of all fast engines of this process may take.
        monitor: takes `engine_rebuilt`.

    Raises:
        ConversionError: the engine is not installed here or cannot load the tokenizer.
    """
    exact = reference(loaded, plain=choice.plain, threads=threads)
    if choice.is_reference:
        return exact
    fast = FAST[choice.engine]
    make = partial(open_fast, fast, loaded, plain=choice.plain, threads=threads)
    try:
        engine = Rebuilt(make, memory_limit, monitor) if fast.grows else make()
    except NotOfferedError as error:
        raise ConversionError(
            choice.engine, str(error), "install the extra fast, or choose --tok-engine hf"
        ) from error
    return Guarded(engine, exact, fast, loaded, choice)


class Guarded:
    """A fast engine with its routing and its samples; `open_engine` makes it."""

    def __init__(
        self,
        engine: Engine,
        exact: Engine,
        fast: FastEngine,
        loaded: TokenizerFile,
        choice: Choice,
    ) -> None:
        self.name = engine.name
        held = needles(fast, loaded, choice.denied, plain=choice.plain)
        self._routed = Routed(engine, exact, held)
        self._sampler = Sampler(engine, exact, share(choice.rates, engine.name, exact.name))
        self._case: Case = case_of(fast, loaded, plain=choice.plain)

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts.

        Raises:
            EngineWrongError: the engine gave other ids than the reference; no later run trusts it.
        """
        encoded, own = self._routed.encode_told(texts)
        try:
            self._sampler.check(texts, encoded, own)
        except EngineWrongError as error:
            keep(self._case, failed_on(error.text))
            raise EngineWrongError(error.engine, error.text[:_SHOWN]) from error
        return encoded
