"""The reference: the engine whose ids are right by definition."""

from ingot.converters.megatron.engines.engine import Engine
from ingot.converters.megatron.engines.hf import open_huggingface
from ingot.converters.megatron.engines.sentencepiece import open_sentencepiece
from ingot.converters.megatron.tokenizer import TokenizerFile


def reference(loaded: TokenizerFile, *, plain: bool = False, threads: int = 1) -> Engine:
    """Hugging Face `tokenizers` for a `tokenizer.json`, sentencepiece itself for a `.model`.

    Args:
        loaded: the tokenizer.
        plain: the texts of special tokens are split like other text; nothing changes for a
            `.model`, which never reads them as those tokens.
        threads: threads the library may use by itself; 1 = the calling one.

    Raises:
        ConversionError: the library cannot load the file.
    """
    if loaded.kind == "sentencepiece":
        return open_sentencepiece(loaded, threads=threads)
    return open_huggingface(loaded, plain=plain, threads=threads)
