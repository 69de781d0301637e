"""Very long texts in pieces whose ids, one after another, are the ids of the whole text.

A library needs a hundred times the memory of a text to encode it in one go. A text over a limit is
therefore cut where it is proved that both sides are encoded as if the other were not there
(`rules`). What cannot be cut within reach is not: nothing is guessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ingot.converters.errors import IngotError
from ingot.converters.megatron.cutting.regex import UnprovableError
from ingot.converters.megatron.cutting.rules import Rules, read_rules
from ingot.converters.megatron.tokenizer import TokenizerFile

# No piece has more than this many times the limit.
LARGEST: Final = 2


class UncuttableError(IngotError):
    """A text has no place where cutting it is proved to keep its ids. Fields: reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the text is too long to encode in one go and cannot be cut: {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A piece of a text; `start` is the position of its first character in the whole.

    Pieces need not join to the text: a space between two of them may belong to neither.
    """

    text: str
    start: int


class Cutter:
    """Cuts texts for one tokenizer; it can serve one thread at a time.

    Attributes:
        reason: why no text at all can be cut for this tokenizer; `None` where texts can be.
    """

    def __init__(self, loaded: TokenizerFile, *, plain: bool, limit: int) -> None:
        """Analyse the tokenizer.

        Args:
            loaded: the tokenizer.
            plain: special tokens in a text are read as plain text.
            limit: characters that a piece should not exceed; none exceeds `LARGEST` times that.
        """
        self.limit = limit
        self.reason: str | None = None
        self._rules: Rules | None = None
        try:
            self._rules = read_rules(loaded, plain=plain)
        except UnprovableError as error:
            self.reason = str(error)
        self._skipped = int(self._rules is not None and self._rules.replaces_space)

    def pieces(self, text: str) -> list[Piece] | None:
        """Cut a text; a text within the limit is one piece.

        Returns:
            The pieces, in order, of at most `LARGEST` times the limit; `None` where some stretch
            of that size has no place to cut.
        """
        try:
            return list(self.cut(text, self.limit))
        except UncuttableError:
            return None

    def cut(self, text: str, kept: int) -> Iterator[Piece]:
        """Cut a text until at most `kept` characters are left, which are the last piece.

        Raises:
            UncuttableError: some stretch of `LARGEST` times the limit has no place to cut.
        """
        start = 0
        while len(text) - start > kept:
            end = self._place(text, start)
            if end is None:
                break
            yield Piece(text=text[start:end], start=start)
            start = end + self._skipped
        if len(text) - start > max(kept, LARGEST * self.limit):
            raise self._uncuttable()
        yield Piece(text=text[start:], start=start)

    def stream(self) -> "Stream":
        """Cut a text that arrives bit by bit."""
        return Stream(self)

    def _place(self, text: str, start: int) -> int | None:
        """The last place within the limit, else the first behind it.

        Two pieces in a row together exceed the limit, so the time is linear in the text.
        """
        if self._rules is None:
            return None
        near, far = start + self.limit, start + LARGEST * self.limit
        first, last = start + self._rules.reach, len(text) - self._rules.reach
        return _last(self._rules, text, first, min(near, last)) or _first(
            self._rules, text, max(first, near + 1), min(far, last)
        )

    def _uncuttable(self) -> UncuttableError:
        return UncuttableError(
            self.reason or f"{LARGEST * self.limit:,} characters without a place to cut"
        )


class Stream:
    """A text that arrives bit by bit, given back in pieces as soon as they are sure."""

    def __init__(self, cutter: Cutter) -> None:
        self._cutter = cutter
        self._parts: list[str] = []
        self._length = 0

    def feed(self, text: str) -> list[str]:
        """Take the next bit; gives the pieces that are complete.

        Raises:
            UncuttableError: there is no place to cut in `LARGEST` times the limit.
        """
        self._parts.append(text)
        self._length += len(text)
        cutter, kept = self._cutter, (LARGEST + 1) * self._cutter.limit
        if self._length <= kept:
            return []
        *pieces, rest = cutter.cut(self._taken(), kept)
        self._parts, self._length = [rest.text], len(rest.text)
        return [piece.text for piece in pieces]

    def finish(self) -> list[str]:
        """The pieces of what is left; none of a text without characters.

        Raises:
            UncuttableError: as `feed`.
        """
        if not self._length:
            return []
        return [piece.text for piece in self._cutter.cut(self._taken(), self._cutter.limit)]

    def _taken(self) -> str:
        text = "".join(self._parts)
        self._parts, self._length = [], 0
        return text


def _last(rules: Rules, text: str, first: int, last: int) -> int | None:
    """The last safe place from `first` to `last`, both included."""
    at = _space_before(rules, text, first, last)
    while at >= first:
        if _safe(rules, text, at):
            return at
        at = _space_before(rules, text, first, at - 1)
    return None


def _first(rules: Rules, text: str, first: int, last: int) -> int | None:
    """The first safe place from `first` to `last`, both included."""
    at = first
    while at <= last:
        if rules.replaces_space:
            at = text.find(" ", at, last + 1)
            if at < 0:
                return None
        if _safe(rules, text, at):
            return at
        at += 1
    return None


def _space_before(rules: Rules, text: str, first: int, last: int) -> int:
    return text.rfind(" ", first, last + 1) if rules.replaces_space else last


def _safe(rules: Rules, text: str, at: int) -> bool:
    return rules.safe(text[at - rules.reach : at], text[at : at + rules.reach])
