"""Columns that hold another column's text again: in markup, cut to a preview, or made of it."""

import re
from collections import Counter
from collections.abc import Sequence
from html import unescape
from itertools import pairwise

from ingot.agent.proposing.columns import Column, outer_names, paired_texts
from ingot.agent.proposing.names import left_out_values, name_group, spell_name

_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL)
_MARKDOWN = re.compile(r"(?:^|\n)(?:#{1,6}|[*-]) |\*\*|__\w|\]\(|(?<!\w)\*\w")
_SIGNS = re.compile(r"[\W_]+")
_CUT_MARK = re.compile(r"\S*(?:\.\.\.|…|\[[^\[\]]{0,9}\])\s*$")
_SITE = re.compile(r"\s[|–—·»-]\s")
_SAME = 0.8
_CHARS = 20_000  # of a text that are compared
_START = 200  # characters by which a text is looked for in another one
_TEMPLATE = 0.4  # of the pairs of words of a text are in most other texts
_LEAST = 5  # rows, or pairs of words


def bare_words(text: str) -> str:
    """A text without its markup: words with one blank between them."""
    plain = unescape(_TAG.sub(" ", text[:_CHARS])) if "<" in text or "&" in text else text[:_CHARS]
    return _SIGNS.sub(" ", plain).strip().casefold()


def holds_text(whole: str, part: str) -> bool:
    """Whether a text holds another one, whatever the markup of both, or its beginning."""
    start = bare_words(_CUT_MARK.sub("", unescape(part)))
    inside = start[:_START] if len(part) == len(_CUT_MARK.sub("", part)) else start
    found = bare_words(whole)
    return inside in found or _pair_share(found, start) > _SAME


def _pair_share(whole: str, part: str) -> float:
    """Share of the pairs of words of a longer text that another one has too: links differ."""
    pairs, others = _word_pairs(part), _word_pairs(whole)
    return len(pairs & others) / len(pairs) if len(pairs) > _LEAST else 0.0


def shared_share(one: str, other: str) -> float:
    """Share of the pairs of words of the shorter of two texts that the longer one has too."""
    pairs = sorted((_word_pairs(bare_words(one)), _word_pairs(bare_words(other))), key=len)
    return len(pairs[0] & pairs[1]) / len(pairs[0]) if pairs[0] else 0.0


def _word_pairs(text: str) -> set[tuple[str, str]]:
    words = text.split()
    return set(pairwise(words))


def is_marked_copy(column: Column, columns: Sequence[Column]) -> bool:
    """Whether a column is the text of another one with more markup around it."""
    level = _markup_level(column)
    return level > 0 and any(
        _markup_level(c) < level and _is_same_text(column, c) for c in columns if c is not column
    )


def _markup_level(column: Column) -> int:
    """How much markup most texts of a column have: 2 tags, 1 signs as of Markdown, 0 none."""
    texts = column.present[:100]
    for level, marks in ((2, _TAG), (1, _MARKDOWN)):
        if 2 * sum(bool(marks.search(text)) for text in texts) > len(texts):
            return level
    return 0


def _is_same_text(column: Column, plain: Column) -> bool:
    both = [(bare_words(a), bare_words(b)) for a, b in paired_texts(column, plain)[:100]]
    same = sum(len(b) > _SAME * len(a) and holds_text(a, b) for a, b in both)
    shorter = sum(len(b) > 0.5 * len(a) and shared_share(a, b) > _SAME for a, b in both)
    return bool(both) and max(same, shorter) > _SAME * len(both)


def is_filled_template(column: Column) -> bool:
    """Whether nearly the same words come in every row, with a name or number filled in."""
    texts = [_word_pairs(bare_words(text)) for text in dict.fromkeys(column.present[:100])]
    counts = Counter(pair for pairs in texts for pair in pairs)
    common = {pair for pair, n in counts.items() if n > 0.5 * len(texts)}
    shares = [len(pairs & common) / len(pairs) for pairs in texts if len(pairs) >= _LEAST]
    return len(shares) >= _LEAST and sorted(shares)[len(shares) // 2] > _TEMPLATE


def ends_in_site_name(column: Column) -> bool:
    """Titles of web pages: after a stroke comes the name of the site, the same in every row."""
    ends = [pieces[-1] for t in column.present if len(pieces := _SITE.split(t)) > 1]
    usual = Counter(ends).most_common(1)
    return len(ends) >= _LEAST and usual[0][1] > _SAME * len(column.present)


def is_about_text(column: Column, body: Column) -> bool:
    """Whether the name calls it a machine's text, a note of the staff, or a preview of the body."""
    names = [spell_name(name) for name in column.names]
    words = {word for name in names for word in name.split("_")} | set(names)
    around = {word for n in outer_names(column.path) for word in spell_name(n).split("_")}
    machine = (words | around) & set(name_group("made_by_machines"))
    preview = words & set(name_group("previews")) and column.chars < body.chars
    return bool(machine or preview or left_out_values("", [column.name]))
