"""Where the added tokens of a tokenizer.json forbid a cut: they are found before all else."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.converters.megatron.cutting.splitting import bigrams
from ingot.converters.megatron.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from tokenizers import AddedToken


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """The characters of added tokens that matter beside a place, raw and normalized.

    Attributes:
        pairs: neighbours inside a token.
        last: ends of the tokens that are read as such.
        first_word, last_word: beginnings and ends of those that are read between words only.
        first_left: beginnings of those that take white space before them.
        last_right: ends of those that take white space behind them.
    """

    pairs: set[str]
    last: str
    first_word: str
    last_word: str
    first_left: str
    last_right: str

    def apart(self, x: str, y: str) -> bool:
        """No token crosses from x to y, looks across, or takes white space from across."""
        if x + y in self.pairs or x in self.last_word or y in self.first_word:
            return False
        blank_x, blank_y = x.isspace(), y.isspace()
        taken_right = self.last_right and blank_y and (blank_x or x in self.last_right)
        taken_left = self.first_left and blank_x and (blank_y or y in self.first_left)
        return not (taken_right or taken_left)

    def ends(self, x: str) -> bool:
        """May a token end at x?"""
        return x in self.last


def read_added(loaded: TokenizerFile, plain: bool) -> Added:
    """Analyse the added tokens; with `plain` special ones are not read as such."""
    tokenizer = loaded.tokenizer
    everything = tokenizer.get_added_tokens_decoder().values()
    read = [token for token in everything if token.content and not (plain and token.special)]
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str

    def spellings(tokens: Iterable["AddedToken"]) -> list[str]:
        forms = ((token.content, normalize(token.content)) for token in tokens)
        return [form for pair in forms for form in pair if form]

    def ends(tokens: list["AddedToken"], at: int) -> str:
        return "".join(form[at] for form in spellings(tokens))

    words = [token for token in read if token.single_word]
    left = [token for token in read if token.lstrip]
    right = [token for token in read if token.rstrip]
    return Added(
        pairs=bigrams(spellings(everything)),
        last=ends(read, -1),
        first_word=ends(words, 0),
        last_word=ends(words, -1),
        first_left=ends(left, 0),
        last_right=ends(right, -1),
    )
