"""Bytes of files into what the tokenizer libraries make of them."""

import stat
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.panics import panics_caught
from ingot.converters.megatron.mistaken import HINT

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer


class UnloadableError(Exception):
    """A library does not take the bytes; its text is what the library said."""


def read_bounded(path: Path, limit: int, hint: str = HINT) -> bytes:
    """The bytes of a regular file.

    Raises:
        ConversionError: it cannot be read, is no regular file, or has more than `limit` bytes.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConversionError(str(path), "is not a regular file", hint)
        if found.st_size > limit:
            raise ConversionError(str(path), f"is larger than {limit >> 20} MiB", hint)
        return path.read_bytes()
    except OSError as error:
        raise ConversionError(str(path), f"cannot be read: {error.strerror}", hint) from error


def is_unicode(text: str) -> bool:
    """Whether a text of a JSON document has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=1)
def huggingface(data: bytes) -> "Tokenizer":
    """The tokenizer of a `tokenizer.json`; one object for all who ask, not to be changed.

    Raises:
        UnloadableError: it is none.
    """
    from tokenizers import Tokenizer

    try:
        with panics_caught():
            tokenizer = Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises nothing more precise
        raise UnloadableError(str(error)) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@lru_cache(maxsize=1)
def sentencepiece(data: bytes) -> "SentencePieceProcessor":
    """The processor of a `.model`; one object for all who ask, not to be changed.

    Raises:
        UnloadableError: it is none.
    """
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(data)
    except (RuntimeError, UnicodeDecodeError) as error:  # its messages quote the bytes
        raise UnloadableError("it is no SentencePiece model, or a damaged one") from error
    return model
