"""Compute which marks stand in texts: names of speakers, brackets, shared beginnings and ends."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ingot.agent.privacy.redaction import clean_text, cut_middle, holds_placeholder, share_path
from ingot.agent.proposing.columns import Column, View
from ingot.agent.proposing.llm.inventory import LONG_NUMBER
from ingot.agent.proposing.names import speaker_role

_TEXTS = 100  # of a column that are looked at
_SNIFFED = 20_000  # characters of each
_OFTEN = 0.3  # share of the texts in which a mark stands
_FIXED = 0.8  # share of the texts that begin or end alike
_LEAST, _MOST = 5, 80  # characters of a fixed beginning
_WORDS = 8  # of a text whose marks may be of any name
_MARKS = 6  # that are told of a column; those of speakers all
_NAMED = re.compile(
    r"(?:(?<=\n)|^)[ \t]*(?P<mark>(?:#{2,4} ?|\*\*)?(?P<name>[^\W\d_][^\n:：<>\[\]]{0,22})"
    r"(?::\*\*|\*\*:|[:：]))"
    r"|(?<=[\s>.!?)\"])(?P<inline>(?P<word>[A-Z][A-Za-z]{2,11}):)(?= )"
)
_BRACKETED = re.compile(
    r"(?P<mark><\|start_header_id\|>(?P<id>\w{1,16})<\|end_header_id\|>"
    r"|<\|im_start\|>(?P<who>\w{1,16})"
    r"|[<\[【][|/]?(?P<name>[^\W\d_][\w .-]{0,20})[|]?[>\]】]:?|</s>|<s>|<</?SYS>>)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mark:
    """A mark in `texts` texts, `times` in all; `begins` and `ends` count those at the very edge."""

    spelling: str
    role: str | None
    texts: int
    times: int
    begins: int
    ends: int


def marker_lines(view: View, share: str, own: Collection[str] = ()) -> list[str]:
    """Return a line per column of texts with such marks; `own` are the data's placeholders."""
    found = []
    for column in (*view.columns, *view.deep):
        present = (v for row in column.values for v in row[:20] if isinstance(v, str) and v.strip())
        texts = [text[:_SNIFFED] for text in islice(present, _TEXTS)]
        if len(texts) < 2 or not column.text:
            continue
        # What stands for a secret is no mark of the text.
        marks = _find_marks(texts)
        if share != "raw":
            marks = [mark for mark in marks if not holds_placeholder(mark.spelling, own)]
        if not any(mark.role for mark in marks) and column.words < _WORDS:
            continue
        if len(marks) == 1 and max(marks[0].begins, marks[0].ends) < _FIXED * marks[0].texts:
            marks = []
        if share == "none":
            marks = [m for m in marks if m.role and not LONG_NUMBER.search(m.spelling)]
        told = [_mark_text(mark, len(texts)) for mark in marks]
        told += _speaker_order(column, [mark for mark in marks if mark.role])
        told += _shared_edges(texts, share, known=[mark.spelling.strip() for mark in marks])
        if told:
            found.append(f"marks in {share_path(column.path, share)}: " + "; ".join(told))
    return found


def _find_marks(texts: Sequence[str]) -> list[_Mark]:
    """Marks that many texts have, or that name somebody who speaks; in order of first sight."""
    places: dict[str, list[tuple[int, int, int]]] = {}
    roles: dict[str, str | None] = {}
    for number, text in enumerate(texts):
        for match in (m for rule in (_NAMED, _BRACKETED) for m in rule.finditer(text)):
            groups = match.groupdict()
            spelling = groups.get("mark") or groups.get("inline") or ""
            name = next((groups[k] for k in ("name", "word", "id", "who") if groups.get(k)), "")
            start = match.start("mark" if groups.get("mark") else "inline")
            places.setdefault(spelling, []).append((number, start, start + len(spelling)))
            roles[spelling] = speaker_role(name) if name else None
    marks = [_count_mark(one, roles[one], found, texts) for one, found in places.items()]
    talks = any(mark.role and mark.texts >= _FIXED * len(texts) for mark in marks)
    talks |= len({one.role for one in marks if one.role and one.texts >= _OFTEN * len(texts)}) > 1
    # In a transcript a speaker may be rare.
    least = {True: max(2, 0.02 * len(texts)), False: max(2, _OFTEN * len(texts))}
    kept = [mark for mark in marks if mark.texts >= least[talks and mark.role is not None]]
    kept.sort(key=lambda mark: (mark.role is None, -mark.texts))
    return [mark for number, mark in enumerate(kept) if mark.role or number < _MARKS]


def _count_mark(
    spelling: str, role: str | None, found: Sequence[tuple[int, int, int]], texts: Sequence[str]
) -> _Mark:
    heads = [texts[number][:start] for number, start, _ in found]
    tails = [head[-6:][::-1] for head in heads if head.strip()]
    lead = _common_beginning([tail[: len(tail) - len(tail.lstrip())] for tail in tails])[::-1]
    return _Mark(
        spelling=lead + spelling if "\n" in lead else spelling,
        role=role,
        texts=len({number for number, _, _ in found}),
        times=len(found),
        begins=sum(not head.strip() for head in heads),
        ends=sum(not texts[number][stop:].strip() for number, _, stop in found),
    )


def _mark_text(mark: _Mark, texts: int) -> str:
    parts = [f"{mark.texts} of {texts} texts", f"{mark.times / mark.texts:.1f} each"]
    parts += [f"begins {mark.begins}"] if mark.begins else []
    parts += [f"ends {mark.ends}"] if mark.ends else []
    return f"{_quote_text(mark.spelling)} ({', '.join(parts)})"


def _speaker_order(column: Column, marks: Sequence[_Mark]) -> list[str]:
    """Which speaker's mark is the first of a text or list of texts, and which the last."""
    if len(marks) < 2:
        return []
    named = sorted((mark.spelling.strip() for mark in marks), key=len, reverse=True)
    rule = re.compile("|".join(map(re.escape, named)))
    found = [marked for text in column.present[:_TEXTS] if (marked := rule.findall(text))]
    lines = []
    for word, place in (("first", 0), ("last", -1)):
        counts = Counter(marked[place] for marked in found)
        told = [f"{_quote_text(m)} x{n}" for m, n in counts.most_common(3)]
        told += [f"+{len(counts) - 3}"] if len(counts) > 3 else []
        lines.append(f"{word} " + ", ".join(told))
    return lines


def _shared_edges(texts: Sequence[str], share: str, known: Sequence[str]) -> Iterator[str]:
    json_like = sum(text.lstrip()[:1] in "[{" for text in texts) > _OFTEN * len(texts)
    if share == "none" or len(set(texts)) < 2 or json_like:
        return
    for word, turned in (("begin", texts), ("end", [text[::-1] for text in texts])):
        common, count = Counter(text[:_LEAST] for text in turned).most_common(1)[0]
        if count < max(3, _FIXED * len(texts)):
            continue
        fixed = _common_beginning([text for text in turned if text.startswith(common)])
        plain = fixed if word == "begin" else fixed[::-1]
        telling = any(c.isalnum() for c in plain) and len(plain) > _LEAST
        if telling and not any(plain.strip() in one for one in known):
            told = cut_middle(clean_text(plain), _MOST, 20)
            yield f"{count} of {len(texts)} {word} with {_quote_text(told)}"


def _common_beginning(texts: Sequence[str]) -> str:
    low, high = min(texts, default=""), max(texts, default="")
    differing = (n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return low[: next(differing, len(low))]


def _quote_text(text: str) -> str:
    return json.dumps(clean_text(text), ensure_ascii=False)
