"""Find columns that repeat another one: its words again, its beginning, or all of it inside."""

import re
from collections.abc import Sequence
from html import unescape

from ingot.agent.proposing.columns import Column, paired_texts

_NON_LETTERS = re.compile(r"[\W_]+")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_DOTS = re.compile(r"\s*(?:…|\.{2,3}|\[\.{3}\])$")
_ENDED = re.compile(r"[.!?。！？:：]$")


def have_same_words(a: Column, b: Column) -> bool:
    """Whether two columns hold the same words, one of them perhaps cut into tokens."""
    both = paired_texts(a, b)
    unlike = 0
    for x, y in both:
        unlike += _letters_only(x) != _letters_only(y)
        if unlike > 0.2 * len(both):
            return False
    return bool(both)


def _letters_only(text: str) -> str:
    """Letters and digits of a text: what is left of it in tokens, and of its HTML."""
    bare = unescape(_TAG.sub("", text))
    return _NON_LETTERS.sub("", bare).casefold() or text.strip()


def containment_share(outer: Column, inner: Column) -> float:
    """Share of the rows in which one text contains the other."""
    both = paired_texts(outer, inner)
    inside = sum(y.strip() in x and len(y.strip()) < len(x) for x, y in both)
    return inside / max(1, len(both))


def drop_copies(columns: Sequence[Column]) -> list[Column]:
    """The columns without those that repeat another: cut into tokens, in HTML, or cut short."""
    texts = [c for c in columns if c.text and not c.many and c.words >= 1.5]
    copies = [b for a in texts for b in texts if a is not b and (_is_copy(b, a) or _is_cut(b, a))]
    return [c for c in columns if c not in copies]


def _is_copy(copy: Column, column: Column) -> bool:
    """Whether the same words stand in a longer text: in tokens, or with tags around them."""
    longer = sum(len(x) - len(y) for x, y in paired_texts(copy, column))
    return column.words >= 2 and longer > 0 and have_same_words(column, copy)


def _is_cut(preview: Column, whole: Column) -> bool:
    """Whether texts are the beginnings of others, most of them cut in the middle of a sentence."""
    both = [(_DOTS.sub("", x.strip()), y.strip()) for x, y in paired_texts(preview, whole)]
    begun = [(x, y) for x, y in both if x and y.casefold().startswith(x.casefold())]
    cut = [x for x, y in begun if y[len(x) : len(x) + 1] not in ("", "\n") and not _ENDED.search(x)]
    return len(begun) > 0.9 * len(both) and 2 * len(cut) > len(both) > 2
