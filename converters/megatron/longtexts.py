"""A document that arrives bit by bit, as pieces that an engine can take."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from ingot.converters.megatron.cutting.cutter import Cutter, Piece, UncuttableError
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.shaping import GOES_ON, NEW_DOCUMENT, NEW_SEQUENCE

SHORT: Final = "short"
LONG: Final = "long"
UNCUTTABLE: Final = "too_long"

# What it is to the piece before, the text, and how many of its leading ids are to be dropped.
TextPiece: TypeAlias = tuple[int, str, int]


def limited(text: str, options: BuildOptions) -> list[str]:
    """The sequences of a document that is not left out, by `max_chars` and `long_docs`."""
    most = options.max_chars
    if most is None or len(text) <= most:
        return [text]
    if options.long_docs == "truncate":
        return [text[:most]]
    return list(sequences(text, most))


def sequences(text: str, most: int) -> Iterator[str]:
    """A text in parts of at most `most` characters, which join to the text.

    A part ends behind the last line break of its second half, else behind the last white space
    there, else after `most` characters.
    """
    start = 0
    while len(text) - start > most:
        end = _end(text, start + most // 2, start + most)
        yield text[start:end]
        start = end
    yield text[start:]


def _end(text: str, begin: int, end: int) -> int:
    line = text.rfind("\n", begin, end)
    if line >= 0:
        return line + 1
    return next((i for i in range(end, begin, -1) if text[i - 1].isspace()), end)


class LongText:
    """Takes blocks of one document; gives its pieces, each with what it is to the one before.

    The limits in characters of the options are kept. Memory: what the cutter holds, and
    `max_chars` where the document is split.

    Attributes:
        verdict: why the document is left out after all: `short`, `long`, `too_long` (no place
            where it can be cut without changing its ids); None = it stays.
        problem: what the cutter said.
        truncated: its end was left out.
        split: it became several sequences.
        chars: characters that came, as far as they were looked at.
    """

    def __init__(self, cutter: Cutter, options: BuildOptions) -> None:
        self.verdict: str | None = None
        self.problem = ""
        self.truncated = self.split = False
        self.chars = 0
        self._cutter = cutter
        self._stream = cutter.stream()
        self._options = options
        self._kind = NEW_DOCUMENT
        self._held = ""  # the sequence that is not complete, where documents are split

    @property
    def ended(self) -> bool:
        """Whether nothing that may still come changes anything."""
        return self.truncated or self.verdict is not None

    def feed(self, block: str) -> Iterator[TextPiece]:
        """Take a block; gives the pieces that are certain."""
        if self.ended:
            return
        most, way = self._options.max_chars, self._options.long_docs
        before = self.chars
        self.chars += len(block)
        if most is None:
            yield from self._pieces(self._stream.feed, block)
        elif way == "split":
            yield from self._sequences(block, most)
        elif self.chars <= most:
            yield from self._pieces(self._stream.feed, block)
        elif way == "filter":
            self.verdict = LONG
        else:
            self.truncated = True
            yield from self._pieces(self._stream.feed, block[: most - before])

    def finish(self) -> Iterator[TextPiece]:
        """The rest."""
        if self.verdict is None and self._held:
            yield from self._pieces(self._stream.feed, self._held)
        if self.verdict is None:
            yield from self._pieces(self._stream.finish)
        if self.verdict is None and self.chars < (self._options.min_chars or 0):
            self.verdict = SHORT

    def _sequences(self, block: str, most: int) -> Iterator[TextPiece]:
        *complete, self._held = sequences(self._held + block, most)
        for text in complete:
            self.split = True
            yield from self._pieces(self._stream.feed, text)
            yield from self._pieces(self._stream.finish)
            self._stream = self._cutter.stream()
            self._kind = NEW_SEQUENCE

    def _pieces(self, cut: Callable[..., list[Piece]], *block: str) -> Iterator[TextPiece]:
        try:
            pieces = cut(*block)
        except UncuttableError as error:
            self.verdict, self.problem = UNCUTTABLE, str(error)
            return
        for piece in pieces:
            yield self._kind, piece.text, piece.skip
            self._kind = GOES_ON
