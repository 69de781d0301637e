"""What a Hugging Face tokenizer puts around every text: found out by encoding some."""

from typing import TYPE_CHECKING, Final, TypeAlias

from ingot.converters.megatron.engines.panics import panics_caught

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Frame: TypeAlias = tuple[list[int], list[int]]

# What nearly every tokenizer can encode; the first words of the vocabulary serve the others.
_PROBES: Final = ("", "a", "b", "the quick brown fox", "1 + 2 = 3\n", "床前明月光")
_PROBE_TOKENS: Final = 64


class _RefusedError(Exception):
    """The tokenizer does not encode a text."""


def common_frame(tokenizer: "Tokenizer") -> Frame | None:
    """The ids before and behind, the same for every text; None where there is no one such pair."""
    vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=False))[:_PROBE_TOKENS]
    common: list[Frame] | None = None
    for text in (*_PROBES, *vocabulary):
        try:
            frames = _frames(tokenizer, text)
        except _RefusedError:
            continue
        common = [one for one in frames if common is None or one in common]
    return common[0] if common is not None and len(common) == 1 else None


def _frames(tokenizer: "Tokenizer", text: str) -> list[Frame]:
    """Every way to read the ids with special tokens as a frame around those without."""
    plain = _encoded(tokenizer, text, special=False)
    framed = _encoded(tokenizer, text, special=True)
    size = len(plain)
    places = range(len(framed) - size + 1)
    return [(framed[:p], framed[p + size :]) for p in places if framed[p : p + size] == plain]


def _encoded(tokenizer: "Tokenizer", text: str, *, special: bool) -> list[int]:
    try:
        with panics_caught():
            return tokenizer.encode(text, add_special_tokens=special).ids
    except Exception as error:  # the library raises nothing more precise
        raise _RefusedError(text) from error
