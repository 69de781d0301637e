"""Columns that hold another column's text again: in markup or tokens, cut short, or made of it."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import unescape
from itertools import pairwise

from ingot.agent.proposing.columns import Column, View, has_scalars, judged_once, outer_names
from ingot.agent.proposing.names import NAMED, left_out_values, name_group, spell_name
from ingot.converters.sources.text_kinds import IN_TAGS, bare_words

_WORDS = re.compile(
    r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+"
)
_CUT_MARK = re.compile(r"(?<!\S)\S*(?:\.\.\.|…|\[[^\[\]]{0,9}\])\s*+$")
_DOTS = re.compile(r"(?<!\s)\s*+(?:…|\.{2,3}|\[\.{3}\])$")
_ENDED = re.compile(r"[.!?。！？:：]$")
_SITE = re.compile(r"\s[|–—·»-]\s")
_SAME = 0.8
_START = 200  # characters by which a text is looked for in another one
_TEMPLATE = 0.4  # of the pairs of words of a text are in most other texts
_RESTATED = 0.35  # of the words of a summary stand in the body
_LEAST = 5  # rows, or pairs of words


def _paired_rows(a: "Column", b: "Column") -> list[int]:
    """Return the numbers of the rows in which neither of two columns is blank."""
    return [n for n, (x, y) in enumerate(zip(a.filled, b.filled, strict=True)) if x and y]


def _paired_texts(a: "Column", b: "Column") -> list[tuple[str, str]]:
    """Return the texts of the rows in which neither of two columns is blank."""
    return [(a.texts[n], b.texts[n]) for n in _paired_rows(a, b)]


def _paired_words(a: "Column", b: "Column") -> list[tuple[str, str]]:
    """Return the first hundred of these texts as bare words."""
    return [(a.bare_texts[n], b.bare_texts[n]) for n in _paired_rows(a, b)[:100]]


def holds_words(text: str, start: str, part: str) -> bool:
    """Return whether bare words hold those of a part, or its beginning if it is marked as cut."""
    inside = start[:_START]
    if "&" in part or any(mark in part for mark in ("...", "…", "]")):
        start = bare_words(_CUT_MARK.sub("", unescape(part)))
        inside = start[:_START] if len(part) == len(_CUT_MARK.sub("", part)) else start
    return inside in text or _shares_pairs(text, start)


def _shares_pairs(whole: str, part: str) -> bool:
    """Whether a longer text has nearly all pairs of words of another one: links differ."""
    pairs = _word_pairs(part)
    most = whole.count(" ") if whole.isascii() else len(whole)
    if len(pairs) <= _LEAST or most < _SAME * len(pairs):
        return False
    return len(pairs & _word_pairs(whole)) / len(pairs) > _SAME


def shared_share(text: str, other: str) -> float:
    """Return the share of the shorter text's pairs of words that the longer text also has."""
    return _shared_pairs(bare_words(text), bare_words(other))


def _shared_pairs(text: str, other: str) -> float:
    pairs = sorted((_word_pairs(text), _word_pairs(other)), key=len)
    return len(pairs[0] & pairs[1]) / len(pairs[0]) if pairs[0] else 0.0


def _word_pairs(text: str) -> frozenset[tuple[str, str]]:
    return _pairs_kept(text) if len(text) <= _KEPT else _last_pairs(text)


def _pairs_of_words(text: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(_words(text)))


def _words(text: str) -> list[str]:
    """The words of a bare text; where nothing parts words, its signs."""
    return text.split() if text.isascii() else _WORDS.findall(text)


_KEPT = 4000  # characters of a text whose words are kept: a body is compared with every column
_pairs_kept = lru_cache(maxsize=512)(_pairs_of_words)
_last_pairs = lru_cache(maxsize=1)(_pairs_of_words)


def is_more_than(share: float, hits: Iterable[bool], count: int) -> bool:
    """Return whether more than a share of the tests hold; only as many are made as needed."""
    matched, left = 0, count
    for hit in hits:
        matched, left = matched + hit, left - 1
        if matched + left <= share * count or matched > share * count:
            break
    return matched > share * count


def holds_column(body: Column, column: Column, share: float) -> bool:
    """Return whether the body holds a column's text or beginning in more than a share of rows."""
    rows = _paired_rows(body, column)
    if column.named("title") >= NAMED:
        hits = (body.bare_texts[n].startswith(column.bare_texts[n]) for n in rows)
    else:
        hits = (
            holds_words(body.bare_texts[n], column.bare_texts[n], column.texts[n]) for n in rows
        )
    return not rows or is_more_than(share, hits, len(rows))


def restates(column: Column, body: Column) -> bool:
    """Return whether a column repeats in sentences what the body says: a summary or a rewording.

    Much of what the sentences say, apart from words that every row has, is in the body of the same
    row and not in the bodies of other rows.
    """
    if column.named("title") >= _SAME:
        return False
    least = _SAME if column.named("lead") >= _SAME else _RESTATED  # an opening says much again
    both = _paired_words(column, body)
    if len(both) < 3 or column.looks("sentence") < 0.5:
        return False
    again = sorted(_shared_pairs(a, b) for a, b in both)
    if again[len(again) // 2] > max(0.5, least):
        return True
    telling = [_telling(a) for a, _ in both]
    usual = {
        w for w, n in Counter(w for words in telling for w in words).items() if 2 * n > len(telling)
    }
    telling = [words - usual for words in telling]
    body_words = [_telling_kept(b) if len(b) <= _KEPT else _telling(b) for _, b in both]
    share = _median_share(telling, body_words)
    return share >= least and share >= 3 * _median_share(telling, [*body_words[1:], body_words[0]])


def _telling(text: str) -> set[str]:
    """The words of a text that say what it is about; pairs of signs where nothing parts words."""
    words = _words(text)
    return {word for word in words if len(word) > 3} | {
        a + b for a, b in pairwise(words) if len(a) == len(b) == 1 and not a.isascii()
    }


_telling_kept = lru_cache(maxsize=128)(_telling)


def _median_share(parts: Sequence[set[str]], wholes: Sequence[set[str]]) -> float:
    both = zip(parts, wholes, strict=True)
    shares = sorted(len(part & whole) / len(part) for part, whole in both if part)
    return shares[len(shares) // 2] if shares else 0.0


def is_marked_copy(column: Column, columns: Sequence[Column]) -> bool:
    """Return whether a column is the text of another column with more markup around it."""
    level = column.markup
    plain = [c for c in columns if c is not column and c.markup < level] if level else []
    if any(_is_same_text(column, c) for c in plain):
        return True
    rivals = [c for c in columns if c is not column]
    return (level == IN_TAGS and _holds_only(column, plain)) or (
        _is_upper(column) and _holds_only(column, rivals)
    )


@judged_once
def _is_upper(column: Column) -> bool:
    """Whether nearly all texts are in capitals, as in an index for searching."""
    return sum(text.isupper() for text in column.present) > _SAME * len(column.present)


def _holds_only(column: Column, plain: Sequence[Column]) -> bool:
    """Whether a text in tags, however short it is cut, is put together from other columns."""
    texts = [(n, _word_pairs(text)) for n, text in enumerate(column.bare_texts[:100])]
    words = [(n, pairs) for n, pairs in texts if len(pairs) > _LEAST]
    is_filled = (
        len(pairs) - len(pairs.difference(*(_word_pairs(c.bare_texts[n]) for c in plain)))
        > _SAME * len(pairs)
        for n, pairs in words
    )
    return len(words) >= 3 and is_more_than(_SAME, is_filled, len(words))


def _is_same_text(column: Column, plain: Column) -> bool:
    both = _paired_words(column, plain)
    same = (len(b) > _SAME * len(a) and holds_words(a, b, b) for a, b in both)
    shorter = (len(b) > 0.5 * len(a) and _shared_pairs(a, b) > _SAME for a, b in both)
    return any(is_more_than(_SAME, hits, len(both)) for hits in (same, shorter))


@judged_once
def is_filled_template(column: Column) -> bool:
    """Return whether nearly the same words occur in every row, with a name or number filled in."""
    texts = [_word_pairs(bare_words(text)) for text in dict.fromkeys(column.present[:100])]
    counts = Counter(pair for pairs in texts for pair in pairs)
    common = {pair for pair, n in counts.items() if n > 0.5 * len(texts)}
    shares = [len(pairs & common) / len(pairs) for pairs in texts if len(pairs) >= _LEAST]
    return len(shares) >= _LEAST and sorted(shares)[len(shares) // 2] > _TEMPLATE


@judged_once
def ends_in_site_name(column: Column) -> bool:
    """Return whether page titles end with a dash or bar and the name of the site in every row."""
    ends = [pieces[-1] for t in column.present if len(pieces := _SITE.split(t)) > 1]
    usual = Counter(ends).most_common(1)
    return len(ends) >= _LEAST and usual[0][1] > _SAME * len(column.present)


def is_about_text(column: Column, body: Column) -> bool:
    """Return whether names say machine-made text, a note of the staff, or a preview of the body."""
    names = [spell_name(name) for name in column.names]
    words = {word for name in names for word in name.split("_")} | set(names)
    around = {word for n in outer_names(column.path) for word in spell_name(n).split("_")}
    machine = (words | around) & set(name_group("made_by_machines"))
    preview = words & set(name_group("previews")) and column.chars < body.chars
    return bool(machine or preview or left_out_values("", [column.name]))


def have_same_words(a: Column, b: Column) -> bool:
    """Return whether two columns hold the same words; one of them may be split into tokens."""
    rows = _paired_rows(a, b)
    unlike = 0
    for n in rows:
        words, other = a.bare_texts[n], b.bare_texts[n]
        if words and other and len(words) - words.count(" ") != len(other) - other.count(" "):
            unlike += 1
        else:
            unlike += _letters_only(a, n) != _letters_only(b, n)
        if unlike > 0.2 * len(rows):
            return False
    return bool(rows)


def _letters_only(column: Column, row: int) -> str:
    """Letters and digits of a text: what is left of it in tokens, and of its HTML."""
    return column.bare_texts[row].replace(" ", "") or column.texts[row].strip()


def containment_share(outer: Column, inner: Column) -> float:
    """Return the share of the rows in which one text contains the other."""
    both = _paired_texts(outer, inner)
    inside = sum(y.strip() in x and len(y.strip()) < len(x) for x, y in both)
    return inside / max(1, len(both))


def drop_copies(columns: Sequence[Column]) -> list[Column]:
    """Return the columns without copies: split into tokens, as HTML, or cut short."""
    texts = [c for c in columns if c.text and not c.many and c.words >= 1.5]
    copies = [b for a in texts for b in texts if a is not b and (_is_copy(b, a) or _is_cut(b, a))]
    return [c for c in columns if c not in copies]


def _is_copy(copy: Column, column: Column) -> bool:
    """Whether the same words stand in a longer text: in tokens, or with tags around them."""
    longer = sum(len(x) - len(y) for x, y in _paired_texts(copy, column))
    return column.words >= 2 and longer > 0 and have_same_words(column, copy)


def _is_cut(preview: Column, whole: Column) -> bool:
    """Whether texts are the beginnings of others, most of them cut in the middle of a sentence."""
    both = [(x.strip(), y.strip()) for x, y in _paired_texts(preview, whole)]
    if not is_more_than(0.9, (_begins(x, y) for x, y in both), len(both)):
        return False
    begun = [(_DOTS.sub("", x), y) for x, y in both if _begins(x, y)]
    cut = [x for x, y in begun if y[len(x) : len(x) + 1] not in ("", "\n") and not _ENDED.search(x)]
    return 2 * len(cut) > len(both) > 2


def _begins(part: str, whole: str) -> bool:
    """Whether a text begins with another one, the dots at whose end say that it was cut."""
    start = _DOTS.sub("", part) if part.endswith(("…", "..", "]")) else part
    return bool(start) and whole.casefold().startswith(start.casefold())


# --- texts that were cut at a fixed width, over several numbered columns


_NUMBER = re.compile(r"(.*?\D)(\d{1,4000})\D*")
_FEWEST = 3  # cuts
_NEARLY_ALL = 0.9
_OPEN_END = re.compile(r"[\w,;]\s*$")


def find_cut_text(view: View, body: Column) -> list[str]:
    """Return the ordered paths of the pieces of a text, [] if one column holds a whole text."""
    numbers = {f.path: _number_of(f.path) for f in view.facts.paths}
    stem = numbers.get(body.path, ("", 0))[0]
    if not stem:  # body, then body_cont1, body_cont2
        stem = next((s for s, _ in numbers.values() if s.startswith(body.path)), "")
        numbers[body.path] = (stem, 0)
    paths = {f.path for f in view.facts.paths if has_scalars(f) or set(f.types) <= {"null"}}
    family = sorted(
        (p for p in paths if stem and numbers[p][0] == stem), key=lambda p: numbers[p][1]
    )
    columns = [c for path in family for c in view.columns if c.path == path]
    return family if _are_cut(columns) and not body.nameless else []


def _number_of(path: str) -> tuple[str, int]:
    match = _NUMBER.fullmatch(path)
    return (match[1], int(match[2])) if match else ("", 0)


def _are_cut(columns: Sequence[Column]) -> bool:
    """Whether pieces that another one follows have one length, and stop inside a sentence."""
    cuts = [first for a, b in pairwise(columns) for first, _ in _paired_texts(a, b)]
    width = max(map(len, cuts), default=0)
    full = sum(len(text) == width for text in cuts)
    inside = sum(bool(_OPEN_END.search(text)) for text in cuts)
    return len(cuts) >= _FEWEST and full >= _NEARLY_ALL * len(cuts) and 2 * inside > len(cuts)
