"""Which engine a build runs with."""

from collections.abc import Set
from importlib.metadata import version
from typing import Literal

import pyarrow as pa

from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.monitor import Monitor
from ingot.converters.megatron.tokenizer import TokenizerFile

Wanted = Literal["auto", "hf", "gigatoken", "fastokens"]


def choose(
    loaded: TokenizerFile,
    wanted: Wanted,
    sample: pa.LargeStringArray,
    *,
    plain: bool,
    total_bytes: int,
    exclude: Set[str] = frozenset(),
    threads: int,
    monitor: Monitor,
) -> Choice:
    """The engine to run with.

    Args:
        loaded: the tokenizer.
        wanted: `auto`, or an engine by name.
        sample: texts of the user's own.
        plain: the texts of special tokens are split like other text.
        total_bytes: text there is to tokenize, estimated.
        exclude: engines that were switched off before.
        threads: threads an engine may use by itself.
        monitor: takes `engine_chosen`.

    Raises:
        ConversionError: the engine asked for is not installed, cannot load the tokenizer or gives
            other ids than the reference.
    """
    name = "sentencepiece" if loaded.kind == "sentencepiece" else "hf"
    library = "sentencepiece" if loaded.kind == "sentencepiece" else "tokenizers"
    return Choice(engine=name, version=version(library), plain=plain)
