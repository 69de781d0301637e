"""Very long texts in pieces whose ids, one after another, are the ids of the whole text.

A library needs a hundred times the memory of a text to encode it in one go. A text over a limit is
therefore cut where it is proved that both sides are encoded as if the other were not there
(`rules`). What has no such place is one piece as long as the memory suffices, and refused beyond
that: nothing is guessed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Final

from ingot.converters.errors import IngotError
from ingot.converters.megatron.cutting.parsing import UnprovableError
from ingot.converters.megatron.cutting.places import places_before, places_behind
from ingot.converters.megatron.cutting.rules import Rules, read_rules
from ingot.converters.megatron.tokenizer import Kind, TokenizerFile

# UTF-8 bytes of the largest piece. Either library needs up to half a GiB for it: `tokenizers` up to
# 165 bytes for one of text, `sentencepiece` up to 60.
LARGEST: Final[dict[Kind, int]] = {"huggingface": 3 << 20, "sentencepiece": 8 << 20}


class UncuttableError(IngotError):
    """A text has no place where cutting it is proved to keep its ids. Fields: reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the text is too long to encode in one go and cannot be cut: {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A piece of a text, as it is to be encoded.

    Attributes:
        text: the piece. It may begin with a few characters that end the piece before, too.
        start: position of its first character in the whole text.
        skip: leading ids of the piece that belong to those characters; they are to be dropped.
    """

    text: str
    start: int
    skip: int = 0


class Cutter:
    """Cuts texts for one tokenizer; it can serve one thread at a time."""

    def __init__(
        self, loaded: TokenizerFile, *, plain: bool, limit: int, largest: int | None = None
    ) -> None:
        """Say what is to be cut.

        Args:
            loaded: the tokenizer.
            plain: special tokens in a text are read as plain text.
            limit: characters that a piece should not exceed.
            largest: UTF-8 bytes that no piece exceeds; `None` = `LARGEST`.
        """
        self._read: Callable[[], Rules] = partial(read_rules, loaded, plain=plain)
        self.limit = limit
        self.largest = max(limit, LARGEST[loaded.kind] if largest is None else largest)

    @cached_property
    def _found(self) -> tuple[Rules | None, str | None]:
        """The rules, read when the first long text comes: a large vocabulary takes seconds."""
        try:
            return self._read(), None
        except UnprovableError as error:
            return None, str(error)

    @property
    def _rules(self) -> Rules | None:
        return self._found[0]

    @property
    def reason(self) -> str | None:
        """Why no text at all can be cut for this tokenizer; `None` where texts can be."""
        return self._found[1]

    def pieces(self, text: str) -> list[Piece] | None:
        """Cut a text; a text within the limit is one piece.

        Returns:
            The pieces, in order; `None` where there is no place to cut for too long.
        """
        try:
            return list(self.cut(text, self.limit))
        except UncuttableError:
            return None

    def cut(self, text: str, kept: int, begun: Piece | None = None) -> Iterator[Piece]:
        """Cut a text until at most `kept` characters are left, which are the last piece.

        Args:
            text: the text.
            kept: at least the limit.
            begun: the piece that the text begins with, where it is the rest of a longer text.

        Raises:
            UncuttableError: there is no place to cut in what the largest piece may hold.
        """
        start, skip = (0, 0) if begun is None else (begun.start, begun.skip)
        begin = 0
        while len(text) - begin > kept:
            end, next_skip = self._place(text, begin) or (len(text), None)
            piece = Piece(text=text[begin:end], start=start + begin, skip=skip)
            self._check(piece.text)
            yield piece
            if next_skip is None:
                return
            begin, skip = end - self._again, next_skip
        yield Piece(text=text[begin:], start=start + begin, skip=skip)

    def stream(self) -> "Stream":
        """Cut a text that arrives bit by bit."""
        return Stream(self)

    def _check(self, text: str) -> None:
        if len(text) > self.limit and len(text.encode()) > self.largest:
            raise UncuttableError(
                self.reason or f"more than {self.largest:,} bytes without a place to cut"
            )

    @property
    def _again(self) -> int:
        return self._rules.again if self._rules else 0

    def _place(self, text: str, begin: int) -> tuple[int, int] | None:
        """The last place within the limit, else the first behind it; and the ids to skip there.

        Two pieces in a row together exceed the limit, so the time is linear in the text.
        """
        rules = self._rules
        if rules is None:
            return None
        first, last = begin + rules.again + rules.reach, len(text) - rules.reach
        near, far = min(begin + self.limit, last), min(begin + self.largest, last)
        return next(
            chain(
                places_before(rules, text, first, near),
                places_behind(rules, text, max(first, near + 1), far),
            ),
            None,
        )


class Stream:
    """A text that arrives bit by bit, given back in pieces as soon as they are sure."""

    def __init__(self, cutter: Cutter) -> None:
        self._cutter = cutter
        self._parts: list[str] = []
        self._length = 0
        self._enough = 2 * cutter.limit  # so many have to be there before they are cut
        self._begun: Piece | None = None

    def feed(self, text: str) -> list[Piece]:
        """Take the next bit; gives the pieces that are complete.

        Raises:
            UncuttableError: there is no place to cut in what the largest piece may hold.
        """
        self._parts.append(text)
        self._length += len(text)
        if self._length <= self._enough:
            return []
        limit = self._cutter.limit
        *pieces, rest = self._cutter.cut(self._taken(), 2 * limit, self._begun)
        self._parts, self._length, self._begun = [rest.text], len(rest.text), rest
        self._enough = max(2 * limit, self._length + limit)
        return pieces

    def finish(self) -> list[Piece]:
        """The pieces of what is left; none of a text without characters.

        Raises:
            UncuttableError: as `feed`.
        """
        if not self._length:
            return []
        return list(self._cutter.cut(self._taken(), self._cutter.limit, self._begun))

    def _taken(self) -> str:
        text = "".join(self._parts)
        self._parts, self._length = [], 0
        return text
