"""Cut very long texts into pieces whose ids, one after another, are the ids of the whole text.

Most neighbours cannot be parted for what they are, and a long stretch has few different ones: so
they are asked about first, and a stretch of which no two can be parted is passed over in one go.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Final, TypeAlias

from ingot.converters.errors import IngotError
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.text.cut_rules import CutRules, read_rules
from ingot.converters.megatron.text.documents import GOES_ON, NEW_DOCUMENT, NEW_SEQUENCE
from ingot.converters.megatron.text.regex_syntax import UnprovableError
from ingot.converters.megatron.tokenizer import TokenizerFile, TokenizerKind

# Characters looked at together: few at first, since a place is usually near.
_FEW: Final = 64
_MANY: Final = 1 << 16
_GROWTH: Final = 4


def safe_places(rules: CutRules, text: str, places: range) -> Iterator[tuple[int, int]]:
    """Those of the places that are safe, in order, and ids that the piece behind has to skip."""
    size = _FEW
    while places:
        near, places, size = places[:size], places[size:], min(size * _GROWTH, _MANY)
        low, high = min(near), max(near)
        neighbours = set(zip(text[low - 1 : high], text[low : high + 1], strict=True))
        likely = {x + y for x, y in neighbours if rules.possible(x, y)}
        for at in near if likely else ():
            if text[at - 1 : at + 1] not in likely:
                continue
            if rules.safe(text[at - rules.reach : at], text[at : at + rules.reach]):
                skip = rules.count(text[at - rules.again : at]) if rules.again else 0
                if skip is not None:
                    yield at, skip


# UTF-8 bytes of the largest piece. Either library needs up to half a GiB for it: `tokenizers` up to
# 165 bytes for one of text, `sentencepiece` up to 60.
LARGEST_PIECES: Final[dict[TokenizerKind, int]] = {"huggingface": 3 << 20, "sentencepiece": 8 << 20}


class UncuttableError(IngotError):
    """A text has no place where cutting it is proved to keep its ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CutPiece:
    """A piece of a text, as it is to be encoded."""

    text: str  # the piece. It may begin with a few characters that end the piece before, too.
    start: int  # position of its first character in the whole text
    # leading ids of the piece that belong to those characters; they are to be dropped
    skip: int = 0


class Cutter:
    """Cuts texts for one tokenizer; it can serve one thread at a time."""

    def __init__(
        self, loaded: TokenizerFile, *, plain: bool, limit: int, largest: int | None = None
    ) -> None:
        self._read: Callable[[], CutRules] = partial(read_rules, loaded, plain=plain)
        self.limit = limit
        self.largest = max(limit, LARGEST_PIECES[loaded.kind] if largest is None else largest)

    @cached_property
    def _rules(self) -> CutRules | str:
        """The rules, or why there are none: a large vocabulary takes seconds, so they are late."""
        try:
            return self._read()
        except UnprovableError as error:
            return str(error)

    @property
    def reason(self) -> str | None:
        """Why no text at all can be cut for this tokenizer; `None` where texts can be."""
        return self._rules if isinstance(self._rules, str) else None

    def cut(self, text: str, kept: int, begun: CutPiece | None = None) -> Iterator[CutPiece]:
        """Cut a text until at most `kept` characters are left, which are the last piece."""
        start, skip = (0, 0) if begun is None else (begun.start, begun.skip)
        begin = 0
        while len(text) - begin > kept:
            end, next_skip = self._place(text, begin) or (len(text), None)
            piece = CutPiece(text=text[begin:end], start=start + begin, skip=skip)
            self._check(piece.text)
            yield piece
            if next_skip is None or isinstance(self._rules, str):
                return
            begin, skip = end - self._rules.again, next_skip
        yield CutPiece(text=text[begin:], start=start + begin, skip=skip)

    def _check(self, text: str) -> None:
        if len(text) > self.limit and len(text.encode()) > self.largest:
            reason = self.reason or f"more than {self.largest:,} bytes without a place to cut"
            problem = "the text is too long to encode in one go and cannot be cut"
            raise UncuttableError(f"{problem}: {reason}")

    def _place(self, text: str, begin: int) -> tuple[int, int] | None:
        """The last place within the limit, else the first behind it; and the ids to skip there.

        Two pieces in a row together exceed the limit, so the time is linear in the text.
        """
        rules = self._rules
        if isinstance(rules, str):
            return None
        first, last = begin + rules.again + rules.reach, len(text) - rules.reach
        near, far = min(begin + self.limit, last), min(begin + self.largest, last)
        before = safe_places(rules, text, range(near, first - 1, -1))
        behind = safe_places(rules, text, range(max(first, near + 1), far + 1))
        return next(chain(before, behind), None)


class CutStream:
    """A text that arrives bit by bit, given back in pieces as soon as they are sure."""

    def __init__(self, cutter: Cutter) -> None:
        self._cutter = cutter
        self._parts: list[str] = []
        self._length = 0
        self._enough = 2 * cutter.limit  # so many have to be there before they are cut
        self._begun: CutPiece | None = None

    def feed(self, text: str) -> list[CutPiece]:
        """Take the next bit; gives the pieces that are complete."""
        self._parts.append(text)
        self._length += len(text)
        if self._length <= self._enough:
            return []
        limit = self._cutter.limit
        *pieces, rest = self._cutter.cut(self._taken(), 2 * limit, self._begun)
        self._parts, self._length, self._begun = [rest.text], len(rest.text), rest
        self._enough = max(2 * limit, self._length + limit)
        return pieces

    def finish(self) -> list[CutPiece]:
        """The pieces of what is left; none of a text without characters."""
        if not self._length:
            return []
        return list(self._cutter.cut(self._taken(), self._cutter.limit, self._begun))

    def _taken(self) -> str:
        text = "".join(self._parts)
        self._parts, self._length = [], 0
        return text


SHORT_REASON: Final = "short"
LONG_REASON: Final = "long"
UNCUTTABLE_REASON: Final = "too_long"  # no place where it can be cut without changing its ids

# What it is to the piece before, the text, and how many of its leading ids are to be dropped.
TextPiece: TypeAlias = tuple[int, str, int]


def limit_text(text: str, options: BuildOptions) -> list[str]:
    """The sequences of a document that is not left out, by `max_chars` and `long_docs`."""
    most = options.max_chars
    if most is None or len(text) <= most:
        return [text]
    if options.long_docs == "truncate":
        return [text[:most]]
    return list(split_sequences(text, most))


def split_sequences(text: str, most: int) -> Iterator[str]:
    """A text in parts of at most `most` characters, which join to the text.

    A part ends behind the last line break of its second half, else behind the last white space
    there, else after `most` characters.
    """
    start = 0
    while len(text) - start > most:
        end = _sequence_end(text, start + most // 2, start + most)
        yield text[start:end]
        start = end
    yield text[start:]


def _sequence_end(text: str, begin: int, end: int) -> int:
    line = text.rfind("\n", begin, end)
    if line >= 0:
        return line + 1
    return next((i for i in range(end, begin, -1) if text[i - 1].isspace()), end)


class LongText:
    """Takes blocks of one document; gives its pieces, each with what it is to the one before.

    The limits in characters of the options are kept. Memory: what the cutter holds, and
    `max_chars` where the document is split.
    """

    def __init__(self, cutter: Cutter, options: BuildOptions) -> None:
        self.verdict: str | None = None  # why the document is left out after all; None = it stays
        self.problem = ""
        self.truncated = self.split = False
        self.chars = 0  # that came, as far as they were looked at
        self._cutter = cutter
        self._stream = CutStream(cutter)
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
        if most is None or (way != "split" and self.chars <= most):
            yield from self._pieces(self._stream.feed, block)
        elif way == "split":
            yield from self._sequences(block, most)
        elif way == "filter":
            self.verdict = LONG_REASON
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
            self.verdict = SHORT_REASON

    def _sequences(self, block: str, most: int) -> Iterator[TextPiece]:
        *complete, self._held = split_sequences(self._held + block, most)
        for text in complete:
            self.split = True
            yield from self._pieces(self._stream.feed, text)
            yield from self._pieces(self._stream.finish)
            self._stream = CutStream(self._cutter)
            self._kind = NEW_SEQUENCE

    def _pieces(self, cut: Callable[..., list[CutPiece]], *block: str) -> Iterator[TextPiece]:
        try:
            pieces = cut(*block)
        except UncuttableError as error:
            self.verdict, self.problem = UNCUTTABLE_REASON, str(error)
            return
        for piece in pieces:
            yield self._kind, piece.text, piece.skip
            self._kind = GOES_ON
