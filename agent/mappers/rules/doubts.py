"""What speaks against a mapping that runs: wrong choices convert cleanly, and only leave traces.

Each trace is a share, 0 (none of it) to 1, with what was seen; `sureness.py` weighs them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ingot.agent.mappers.rules.draft import Draft
from ingot.agent.mappers.rules.names import role_of
from ingot.agent.mappers.rules.table import Column, View, hits, texts_in
from ingot.converters.paths import Node
from ingot.converters.profile import spread
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.text_kinds import words_in
from ingot.converters.unify import Record

_MARK = re.compile(
    r"(?:^|\n)\W{0,4}(\w[\w ]{0,18})\W{0,3}[:：]|<\|?/?(\w{2,14})\|?>|\[\|?(\w{2,14})\|?\]"
)
_SEPARATOR = re.compile(r"__\w{2,5}__|<\|?end\w*\|?>|\|EOM\||</s>|\[SEP\]", re.IGNORECASE)
_FEW_ROWS = 12
_RUNNING = 0.5
_FEW_WORDS = 4
_LOOKED_FOR = 400  # texts of whole rows that are looked for in what is taken
_READ = 4 << 20  # characters of what is taken
_SENTENCES = 14  # words of a sentence or two
_NEVER_SAID = ("rejected", "example", "tools", "url", "author", "source", "metadata")


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that speaks against a mapping: its name, how much of it, and what was seen."""

    name: str
    share: float
    seen: str


def traces(
    view: View, draft: Draft, records: Sequence[Record], source: Source, made: float
) -> list[Trace]:
    """What speaks against a draft that was run.

    Args:
        view: the rows in the draft's reading.
        draft: what was run.
        records: some of what it made.
        source: where the rows come from.
        made: share of the sampled rows that gave a record.
    """
    found = [
        _unused(view, draft),
        elsewhere(source),
        Trace("rows", 1 - made, f"{1 - made:.0%} of the rows give no record"),
        _few(len(view.nodes)),
        *of_records(draft.kind, records),
    ]
    return [trace for trace in found if trace.share > 0]


def _unused(view: View, draft: Draft) -> Trace:
    """Running text that the draft leaves out and that no text it takes holds."""
    columns = {c.path: c for c in (*view.columns, *view.deep)}
    taken = [c for c in columns.values() if _is_taken(c, draft.used)]
    said = _all_text(taken)
    parts = [c.texts for c in taken]
    left = [
        c
        for c in columns.values()
        if c not in taken and _running(c) and not (_repeats(c, said) or _filled(c, parts))
    ]
    chars = sum(c.chars for c in left)
    share = chars / max(1, chars + sum(c.chars for c in taken))
    if view.each and (around := _left_around(view, said)) > share:
        return Trace("unused", around, f"{around:.0%} of the running text of the rows is not used")
    names = ", ".join(c.path for c in sorted(left, key=lambda c: -c.chars)[:3])
    return Trace("unused", share, f"{share:.0%} of the running text is not used ({names})")


def _left_around(view: View, said: Sequence[str]) -> float:
    """Share of the running text of whole rows that the records inside them do not take."""
    roots = {id(top.value): top.value for top in map(_top, view.nodes)}
    if len(view.nodes) < sum(len(hits(view.each, Node(root))) for root in roots.values()):
        return 0.0  # some of the records were not looked at: what they take is not known
    whole = "\n".join(dict.fromkeys(said))[:_READ]
    texts = [t for t in texts_in(list(roots.values())) if words_in(t[:2000]) >= _FEW_WORDS]
    some = spread(texts, _LOOKED_FOR)
    left = sum(len(text) for text in some if text.strip()[:200] not in whole)
    return left / max(1, sum(map(len, some)))


def _top(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _is_taken(column: Column, used: frozenset[str]) -> bool:
    return any(column.path == path or column.path.startswith(f"{path}[*]") for path in used)


def _running(column: Column) -> bool:
    never = max(column.named(kind) for kind in _NEVER_SAID)
    return column.text and column.words >= 4 and column.looks("prose") > _RUNNING and never < 0.95


def _all_text(columns: Sequence[Column]) -> list[str]:
    rows = max((len(c.texts) for c in columns), default=0)
    return ["\n".join(c.texts[row] for c in columns) for row in range(rows)]


def _repeats(column: Column, said: Sequence[str]) -> bool:
    """Whether most of its texts stand in what is taken of the same row."""
    both = [
        (text.strip(), whole)
        for text, whole in zip(column.texts, said, strict=False)
        if text.strip()
    ]
    return sum(text[:200] in whole for text, whole in both) > _RUNNING * len(both)


def _filled(column: Column, parts: Sequence[Sequence[str]]) -> bool:
    """Whether a column only puts what is taken into a template: it holds all of it."""
    rows = [[t.strip() for t in row if t.strip()] for row in zip(*parts, strict=False)]
    whole = [all(t in text for t in row) for text, row in zip(column.texts, rows, strict=False)]
    return len(parts) > 1 and sum(whole) > _RUNNING * len(whole)


def elsewhere(source: Source) -> Trace:
    """Data files of another shape beside those that are read, by their size."""
    left = {one.name for one in source.left_out if "shape" in one.why}
    sizes = {entry.name: entry.bytes for entry in source.listing.entries}
    other = sum(sizes.get(name, 0) for name in left)
    read = sum(file.bytes for file in source.files)
    share = other / max(1, other + read)
    return Trace("elsewhere", share, f"{share:.0%} of the data lies in files of another shape")


def _few(rows: int) -> Trace:
    return Trace("few", max(0.0, 1 - rows / _FEW_ROWS), f"only {rows} rows to judge by")


def of_records(kind: str, records: Sequence[Record]) -> list[Trace]:
    """What the records alone tell; `kind` is `pt` or `sft`."""
    return _of_talks(records) if kind == "sft" else _of_texts(records)


def _of_talks(records: Sequence[Record]) -> list[Trace]:
    talks = [record["messages"] for record in records]
    count = max(1, len(talks))
    asked = [talk[0]["content"].strip() for talk in talks if talk]
    texts = [message["content"] for talk in talks for message in talk]
    ends = sum(talk[-1]["role"] != "assistant" for talk in talks if talk) / count
    echo = sum(_echoes(talk) for talk in talks) / count
    again = 1 - len(set(asked)) / max(1, len(asked))
    marks = _marked(texts)
    bare = sum(_bare(talk) for talk in talks) / count
    return [
        Trace("ends open", ends, f"{ends:.0%} of the conversations end without an answer"),
        Trace("echo", echo, f"{echo:.0%} of the answers stand in their question"),
        Trace("asked again", again, f"{again:.0%} of the questions were asked before"),
        Trace("marks", marks, f"{marks:.0%} of the texts hold marks like a speaker's"),
        Trace("bare", bare, f"{bare:.0%} of the answers are a word or a number"),
    ]


def _echoes(talk: Sequence[dict[str, Json]]) -> bool:
    pairs = pairwise(talk)
    return any(
        b["role"] == "assistant" and len(b["content"]) > 3 and b["content"].strip() in a["content"]
        for a, b in pairs
    )


def _bare(talk: Sequence[dict[str, Json]]) -> bool:
    said = [m["content"].strip() for m in talk if m["role"] == "assistant"]
    return bool(said) and all(words_in(text) < 2 for text in said)


def _of_texts(records: Sequence[Record]) -> list[Trace]:
    texts = [record["text"] for record in records]
    count = max(1, len(texts))
    short = sum(words_in(text[:400]) < _SENTENCES for text in texts) / count
    marks = _marked(texts)
    usual = Counter(text.strip()[:200] for text in texts)
    again = 1 - len(usual) / count
    return [
        Trace("short", short, f"{short:.0%} of the texts are shorter than a sentence or two"),
        Trace("marks", marks, f"{marks:.0%} of the texts hold marks like a speaker's"),
        Trace("again", again, f"{again:.0%} of the texts were met before"),
    ]


def _marked(texts: Sequence[str]) -> float:
    """Share of the texts with a speaker's mark or a separator that conversations are cut at."""
    return sum(_has_mark(text[:4000]) for text in texts) / max(1, len(texts))


def _has_mark(text: str) -> bool:
    if _SEPARATOR.search(text):
        return True
    names = (next(filter(None, match.groups()), "") for match in _MARK.finditer(text))
    return sum(role_of(name) in ("user", "assistant") for name in names) > 1
