"""Columns that hold another column's text again: in markup or tokens, cut short, or made of it."""

import re
from collections import Counter
from collections.abc import Sequence
from html import unescape
from itertools import pairwise

from ingot.agent.proposing.columns import Column, View, has_scalars, outer_names, paired_texts
from ingot.agent.proposing.names import left_out_values, name_group, spell_name

_TAG = re.compile(r"<!--.*?(?:-->|\Z)|</?[a-zA-Z][^<>]*>", re.DOTALL)
_MARKDOWN = re.compile(r"(?:^|\n)(?:#{1,6}|[*-]) |\*\*|__\w|\]\(|(?<!\w)\*\w")
_WORDS = re.compile(
    r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+"
)
_SIGNS = re.compile(r"[\W_]+")
_CUT_MARK = re.compile(r"(?<!\S)\S*(?:\.\.\.|…|\[[^\[\]]{0,9}\])\s*+$")
_DOTS = re.compile(r"(?<!\s)\s*+(?:…|\.{2,3}|\[\.{3}\])$")
_ENDED = re.compile(r"[.!?。！？:：]$")
_SITE = re.compile(r"\s[|–—·»-]\s")
_SAME = 0.8
_TAGS = 2  # the level of markup in tags
_CHARS = 20_000  # of a text that are compared
_START = 200  # characters by which a text is looked for in another one
_TEMPLATE = 0.4  # of the pairs of words of a text are in most other texts
_RESTATED = 0.35  # of the words of a summary stand in the body
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
    return set(pairwise(_WORDS.findall(text)))


def restates(column: Column, body: Column) -> bool:
    """Whether sentences say what the body says again: a summary, or another wording.

    Much of what they say, beside the words that come in every row, stands in their own body, and
    not in those of other rows.
    """
    if column.named("title") >= _SAME:
        return False
    least = _SAME if column.named("lead") >= _SAME else _RESTATED  # an opening says much again
    both = [(bare_words(a), bare_words(b)) for a, b in paired_texts(column, body)[:100]]
    if len(both) < 3 or column.looks("sentence") < 0.5:
        return False
    again = sorted(shared_share(a, b) for a, b in both)
    if again[len(again) // 2] > max(0.5, least):
        return True
    said = [_telling(a) for a, _ in both]
    usual = {w for w, n in Counter(w for one in said for w in one).items() if 2 * n > len(said)}
    said = [one - usual for one in said]
    told = [_telling(b) for _, b in both]
    own = _median_share(said, told)
    return own >= least and own >= 3 * _median_share(said, [*told[1:], told[0]])


def _telling(text: str) -> set[str]:
    """The words of a text that say what it is about; pairs of signs where nothing parts words."""
    words = _WORDS.findall(text)
    return {word for word in words if len(word) > 3} | {
        a + b for a, b in pairwise(words) if len(a) == len(b) == 1 and not a.isascii()
    }


def _median_share(parts: Sequence[set[str]], wholes: Sequence[set[str]]) -> float:
    both = zip(parts, wholes, strict=True)
    shares = sorted(len(part & whole) / len(part) for part, whole in both if part)
    return shares[len(shares) // 2] if shares else 0.0


def is_marked_copy(column: Column, columns: Sequence[Column]) -> bool:
    """Whether a column is the text of another one with more markup around it."""
    level = _markup_level(column)
    plain = [c for c in columns if c is not column and _markup_level(c) < level] if level else []
    if any(_is_same_text(column, c) for c in plain):
        return True
    others = [c for c in columns if c is not column]
    return (level == _TAGS and _holds_only(column, plain)) or (
        _is_upper(column) and _holds_only(column, others)
    )


def _is_upper(column: Column) -> bool:
    """Whether nearly all texts are in capitals, as in an index for searching."""
    capital = sum(text.isupper() for text in column.present)
    return capital > _SAME * len(column.present)


def _holds_only(column: Column, plain: Sequence[Column]) -> bool:
    """Whether a text in tags, however short it is cut, is put together from other columns."""
    words = [_word_pairs(bare_words(text)) for text in column.texts[:100]]
    told = [
        {pair for c in plain if c.texts[n] for pair in _word_pairs(bare_words(c.texts[n]))}
        for n in range(len(words))
    ]
    shares = [len(a & b) / len(a) for a, b in zip(words, told, strict=True) if len(a) > _LEAST]
    return len(shares) >= 3 and sum(one > _SAME for one in shares) > _SAME * len(shares)


def _markup_level(column: Column) -> int:
    """How much markup most texts of a column have: 2 tags, 1 signs as of Markdown, 0 none."""
    texts = column.present[:100]
    for level, marks in ((_TAGS, _TAG), (1, _MARKDOWN)):
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
    return bare_words(text).replace(" ", "") or text.strip()


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


# --- texts that were cut at a fixed width, over several numbered columns


_NUMBER = re.compile(r"(.*?\D)0*(\d+)\D*")
_FEWEST = 3  # cuts
_NEARLY_ALL = 0.9
_OPEN_END = re.compile(r"[\w,;]\s*$")


def find_cut_text(view: View, body: Column) -> list[str]:
    """The paths of the pieces of one text in their order, [] where a column holds a whole one."""
    numbers = {f.path: _number_of(f.path) for f in view.facts.paths}
    stem = numbers.get(body.path, ("", 0))[0]
    if not stem:  # body, then body_cont1, body_cont2
        stem = next((s for s, _ in numbers.values() if s.startswith(body.path)), "")
        numbers[body.path] = (stem, 0)
    held = {f.path for f in view.facts.paths if has_scalars(f) or set(f.types) <= {"null"}}
    family = sorted(
        (p for p in held if stem and numbers[p][0] == stem), key=lambda p: numbers[p][1]
    )
    columns = [c for path in family for c in view.columns if c.path == path]
    return family if _are_cut(columns) and not body.nameless else []


def _number_of(path: str) -> tuple[str, int]:
    found = _NUMBER.fullmatch(path)
    return (found[1], int(found[2])) if found else ("", 0)


def _are_cut(columns: Sequence[Column]) -> bool:
    """Whether pieces that another one follows have one length, and stop inside a sentence."""
    cuts = [first for a, b in pairwise(columns) for first, _ in paired_texts(a, b)]
    width = max(map(len, cuts), default=0)
    full = sum(len(text) == width for text in cuts)
    inside = sum(bool(_OPEN_END.search(text)) for text in cuts)
    return len(cuts) >= _FEWEST and full >= _NEARLY_ALL * len(cuts) and 2 * inside > len(cuts)
