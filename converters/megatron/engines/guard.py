"""Engines as a build uses them: watched where they are not the reference itself."""

from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import Engine
from ingot.converters.megatron.engines.reference import reference
from ingot.converters.megatron.monitor import Monitor
from ingot.converters.megatron.tokenizer import TokenizerFile


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
        memory_limit: bytes of resident memory of the process beyond which a fast engine's caches
            are dropped.
        monitor: takes `engine_rebuilt`.

    Raises:
        ConversionError: the engine cannot load the tokenizer.
    """
    return reference(loaded, plain=choice.plain, threads=threads)
