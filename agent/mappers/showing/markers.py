"""Literal marks that come again in texts: speakers of transcripts, end marks, fixed beginnings."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.mappers.rules.names import role_of
from ingot.agent.mappers.rules.table import Column, View
from ingot.agent.mappers.showing.cleaning import clean, cut
from ingot.agent.mappers.showing.sharing import shared_path, shared_text

_TEXTS = 100  # of a column that are looked at
_SNIFFED = 20_000  # characters of each
_OFTEN = 0.3  # share of the texts in which a mark stands
_FIXED = 0.8  # share of the texts that begin or end alike
_LEAST, _MOST = 5, 80  # characters of a fixed beginning
_WORDS = 8  # of a text whose marks may be of any name
_MARKS = 6  # that are told of a column
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
_LEAD = re.compile(r"\s*\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mark:
    """A mark in the texts of a column: its spelling with the line breaks before it, and how often.

    `texts` of them have it, `times` in all; `begins` and `ends` count those at the very edge.
    """

    spelling: str
    role: str | None
    texts: int
    times: int
    begins: int
    ends: int


def lines(view: View, share: str) -> list[str]:
    """A line per column of texts that have such marks."""
    found = []
    for column in (*view.columns, *view.deep):
        texts = _texts(column)
        if len(texts) < 2 or not column.text:
            continue
        marks = _marks(texts)
        if not any(mark.role for mark in marks) and column.words < _WORDS:
            continue
        if len(marks) == 1 and not _at_an_edge(marks[0]):
            marks = []
        told = [_told(mark, len(texts)) for mark in marks if share != "none" or mark.role]
        told += _order(column, [mark for mark in marks if mark.role])
        told += _edges(column.name, texts, share, known=[mark.spelling.strip() for mark in marks])
        if told:
            found.append(f"marks in {shared_path(column.path, share)}: " + "; ".join(told))
    return found


def _texts(column: Column) -> list[str]:
    found = (v for row in column.values for v in row[:20] if isinstance(v, str) and v.strip())
    return [text[:_SNIFFED] for text, _ in zip(found, range(_TEXTS), strict=False)]


def _marks(texts: Sequence[str]) -> list[_Mark]:
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
            roles[spelling] = role_of(name) if name else None
    marks = [_mark(one, roles[one], found, texts) for one, found in places.items()]
    talks = any(mark.role and mark.texts >= _FIXED * len(texts) for mark in marks)
    sides = len({mark.role for mark in marks if mark.role and mark.texts >= _OFTEN * len(texts)})
    kept = [mark for mark in marks if _worth(mark, len(texts), talks or sides > 1)]
    kept.sort(key=lambda mark: (mark.role is None, -mark.texts))
    return kept[:_MARKS]


def _worth(mark: _Mark, texts: int, talks: bool) -> bool:
    """Whether many texts have a mark, or a transcript (`talks`) some of a speaker."""
    if mark.role is not None and talks:
        return mark.texts >= max(2, 0.02 * texts)
    return mark.texts >= max(2, _OFTEN * texts)


def _mark(
    spelling: str, role: str | None, found: Sequence[tuple[int, int, int]], texts: Sequence[str]
) -> _Mark:
    leads = []
    begins = ends = 0
    for number, start, stop in found:
        before = texts[number][:start]
        if before.strip():
            match = _LEAD.search(before[-6:])
            leads.append(match.group() if match else "")
        else:
            begins += 1
        ends += not texts[number][stop:].strip()
    lead = _alike([one[::-1] for one in leads])[::-1] if leads else ""
    lead = lead if "\n" in lead else ""
    return _Mark(
        spelling=lead + spelling,
        role=role,
        texts=len({number for number, _, _ in found}),
        times=len(found),
        begins=begins,
        ends=ends,
    )


def _at_an_edge(mark: _Mark) -> bool:
    """Whether a mark begins or ends most texts that have it."""
    return max(mark.begins, mark.ends) >= _FIXED * mark.texts


def _told(mark: _Mark, texts: int) -> str:
    parts = [f"{mark.texts} of {texts} texts", f"{mark.times / mark.texts:.1f} each"]
    if mark.begins:
        parts.append(f"begins {mark.begins}")
    if mark.ends:
        parts.append(f"ends {mark.ends}")
    return f"{_quoted(mark.spelling)} ({', '.join(parts)})"


def _order(column: Column, marks: Sequence[_Mark]) -> list[str]:
    """Which speaker's mark is the first of a text or list of texts, and which the last."""
    if len(marks) < 2:
        return []
    named = [mark.spelling.strip() for mark in marks]
    rule = re.compile("|".join(map(re.escape, sorted(named, key=len, reverse=True))))
    found = [rule.findall(text) for text in column.present[:_TEXTS]]
    ends = (
        (first, [f[place] for f in found if f]) for first, place in (("first", 0), ("last", -1))
    )
    return [
        f"{word} " + ", ".join(f"{_quoted(m)} x{n}" for m, n in Counter(marked).most_common(3))
        for word, marked in ends
    ]


def _edges(name: str, texts: Sequence[str], share: str, known: Sequence[str]) -> Iterator[str]:
    """Beginnings and endings that most texts share."""
    json_like = sum(text.lstrip()[:1] in "[{" for text in texts) > _OFTEN * len(texts)
    if share == "none" or len(set(texts)) < 2 or json_like:
        return
    for word, turned in (("begin", texts), ("end", [text[::-1] for text in texts])):
        common, count = Counter(text[:_LEAST] for text in turned).most_common(1)[0]
        if count < max(3, _FIXED * len(texts)):
            continue
        fixed = _alike([text for text in turned if text.startswith(common)])
        plain = fixed if word == "begin" else fixed[::-1]
        if (
            any(c.isalnum() for c in plain)
            and len(plain) > _LEAST
            and not any(plain.strip() in one for one in known)
        ):
            told = clean(shared_text(name, plain, share))
            yield f"{count} of {len(texts)} {word} with {_quoted(cut(told, _MOST, 20))}"


def _alike(texts: Sequence[str]) -> str:
    """The beginning that all texts share."""
    low, high = min(texts), max(texts)
    same = (a == b for a, b in zip(low, high, strict=False))
    return low[: next((n for n, one in enumerate(same) if not one), min(len(low), len(high)))]


def _quoted(text: str) -> str:
    return json.dumps(clean(text), ensure_ascii=False)
