"""Estimate how likely a draft is right, and list what speaks for and against it.

The probability is measured, not felt: wrong choices convert cleanly and only leave traces.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from ingot.agent.proposing.columns import Column, View, speaker_role, texts_in, values_at
from ingot.agent.proposing.proposal import Evidence, select_parts
from ingot.agent.proposing.readings import Draft
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.paths import Node
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources import Source
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.text_kinds import count_words, is_question

# "How to bake bread" is a headline; with a question mark, or as an order, it asks.
_HEADLINE = re.compile(r"\s*(?:what|who|whose|when|where|why|how|which)\b[^?]*$", re.IGNORECASE)
_PROMPT_SHARE = 0.85  # share of asking texts from which on they are prompts and no documents


def open_mode_factor(draft: Draft, records: Sequence[Record]) -> float:
    """A factor for the score of a draft, from what it makes of the rows."""
    if draft.kind == "pt":
        prompts = _asking_share([record["text"] for record in records]) >= _PROMPT_SHARE
        return 0.3 if prompts or not draft.explicit else 0.85
    if draft.explicit:
        return 1.0
    asked, told = (
        _asking_share([m["content"] for r in records for m in r["messages"] if m["role"] == role])
        for role in ("user", "assistant")
    )
    return 0.6 + 0.4 * max(0.0, asked - told)


def _asking_share(texts: Sequence[str]) -> float:
    asking = sum(is_question(text) and not _HEADLINE.match(text) for text in texts)
    return asking / max(1, len(texts))


_MARK = re.compile(
    r"(?:^|\n)\W{0,4}(\w[\w ]{0,18})\W{0,3}[:：]|<\|?/?(\w{2,14})\|?>|\[\|?(\w{2,14})\|?\]"
)
_SEPARATOR = re.compile(r"__\w{2,5}__|<\|?end\w*\|?>|\|EOM\||</s>|\[SEP\]", re.IGNORECASE)
_FEW_ROWS = 12
_RUNNING = 0.5
_FEW_WORDS = 4
_SEARCHED_TEXTS = 400  # texts of whole rows that are looked for in what is taken
_READ_CHARS = 4 << 20  # characters of what is taken
_SENTENCE_WORDS = 14  # words of a sentence or two
_NEVER_TEXT = ("rejected", "example", "tools", "url", "author", "source", "metadata")


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that speaks against a mapping: its name, how much of it, and what was seen."""

    name: str
    share: float
    seen: str


def find_doubts(
    view: View, draft: Draft, records: Sequence[Record], source: Source, made: float
) -> list[Doubt]:
    """What speaks against a draft that was run."""
    found = [
        _unused_text_doubt(view, draft),
        other_files_share(source),
        Doubt("rows", 1 - made, f"{1 - made:.0%} of the rows give no record"),
        _few_rows_doubt(len(view.nodes)),
        *record_doubts(draft.kind, records),
    ]
    return [trace for trace in found if trace.share > 0]


def _unused_text_doubt(view: View, draft: Draft) -> Doubt:
    """Running text that the draft leaves out and that no text it takes holds."""
    columns = {c.path: c for c in (*view.columns, *view.deep)}
    taken = [
        c
        for c in columns.values()
        if any(c.path == path or c.path.startswith(f"{path}[*]") for path in draft.used)
    ]
    said = _joined_texts(taken)
    parts = [c.texts for c in taken]
    left = [
        c
        for c in columns.values()
        if c not in taken
        and _is_running_text(c)
        and not (_is_mostly_taken(c, said) or _is_filled_template(c, parts))
    ]
    chars = sum(c.chars for c in left)
    share = chars / max(1, chars + sum(c.chars for c in taken))
    if view.each and (around := _outer_text_share(view, said)) > share:
        return Doubt("unused", around, f"{around:.0%} of the running text of the rows is not used")
    names = ", ".join(c.path for c in sorted(left, key=lambda c: -c.chars)[:3])
    return Doubt("unused", share, f"{share:.0%} of the running text is not used ({names})")


def _outer_text_share(view: View, said: Sequence[str]) -> float:
    """Share of the running text of whole rows that the records inside them do not take."""
    roots = {id(top.value): top.value for top in map(_top_node, view.nodes)}
    if len(view.nodes) < sum(len(values_at(view.each, Node(root))) for root in roots.values()):
        return 0.0  # some of the records were not looked at: what they take is not known
    whole = "\n".join(dict.fromkeys(said))[:_READ_CHARS]
    texts = [t for t in texts_in(list(roots.values())) if count_words(t[:2000]) >= _FEW_WORDS]
    some = pick_evenly(texts, _SEARCHED_TEXTS)
    left = sum(len(text) for text in some if text.strip()[:200] not in whole)
    return left / max(1, sum(map(len, some)))


def _top_node(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _is_running_text(column: Column) -> bool:
    never = max(column.named(kind) for kind in _NEVER_TEXT)
    return column.text and column.words >= 4 and column.looks("prose") > _RUNNING and never < 0.95


def _joined_texts(columns: Sequence[Column]) -> list[str]:
    rows = max((len(c.texts) for c in columns), default=0)
    return ["\n".join(c.texts[row] for c in columns) for row in range(rows)]


def _is_mostly_taken(column: Column, said: Sequence[str]) -> bool:
    """Whether most of its texts stand in what is taken of the same row."""
    both = [
        (text.strip(), whole)
        for text, whole in zip(column.texts, said, strict=False)
        if text.strip()
    ]
    return sum(text[:200] in whole for text, whole in both) > _RUNNING * len(both)


def _is_filled_template(column: Column, parts: Sequence[Sequence[str]]) -> bool:
    """Whether a column only puts what is taken into a template: it holds all of it."""
    rows = [[t.strip() for t in row if t.strip()] for row in zip(*parts, strict=False)]
    whole = [all(t in text for t in row) for text, row in zip(column.texts, rows, strict=False)]
    return len(parts) > 1 and sum(whole) > _RUNNING * len(whole)


def other_files_share(source: Source) -> Doubt:
    """Data files of another shape beside those that are read, by their size."""
    left = {one.name for one in source.left_out if "shape" in one.why}
    sizes = {entry.name: entry.bytes for entry in source.listing.entries}
    other = sum(sizes.get(name, 0) for name in left)
    read = sum(file.bytes for file in source.files)
    share = other / max(1, other + read)
    return Doubt("elsewhere", share, f"{share:.0%} of the data lies in files of another shape")


def _few_rows_doubt(rows: int) -> Doubt:
    return Doubt("few", max(0.0, 1 - rows / _FEW_ROWS), f"only {rows} rows to judge by")


def record_doubts(kind: str, records: Sequence[Record]) -> list[Doubt]:
    """What the records alone tell; `kind` is `pt` or `sft`."""
    return _conversation_doubts(records) if kind == "sft" else _text_doubts(records)


def _conversation_doubts(records: Sequence[Record]) -> list[Doubt]:
    talks = [record["messages"] for record in records]
    count = max(1, len(talks))
    asked = [talk[0]["content"].strip() for talk in talks if talk]
    texts = [message["content"] for talk in talks for message in talk]
    ends = sum(talk[-1]["role"] != "assistant" for talk in talks if talk) / count
    echo = sum(_repeats_question(talk) for talk in talks) / count
    again = 1 - len(set(asked)) / max(1, len(asked))
    marks = _marked_share(texts)
    bare = sum(_answers_are_bare(talk) for talk in talks) / count
    return [
        Doubt("ends open", ends, f"{ends:.0%} of the conversations end without an answer"),
        Doubt("echo", echo, f"{echo:.0%} of the answers stand in their question"),
        Doubt("asked again", again, f"{again:.0%} of the questions were asked before"),
        Doubt("marks", marks, f"{marks:.0%} of the texts hold marks like a speaker's"),
        Doubt("bare", bare, f"{bare:.0%} of the answers are a word or a number"),
    ]


def _repeats_question(talk: Sequence[dict[str, Json]]) -> bool:
    pairs = pairwise(talk)
    return any(
        b["role"] == "assistant" and len(b["content"]) > 3 and b["content"].strip() in a["content"]
        for a, b in pairs
    )


def _answers_are_bare(talk: Sequence[dict[str, Json]]) -> bool:
    said = [m["content"].strip() for m in talk if m["role"] == "assistant"]
    return bool(said) and all(count_words(text) < 2 for text in said)


def _text_doubts(records: Sequence[Record]) -> list[Doubt]:
    texts = [record["text"] for record in records]
    count = max(1, len(texts))
    short = sum(count_words(text[:400]) < _SENTENCE_WORDS for text in texts) / count
    marks = _marked_share(texts)
    usual = Counter(text.strip()[:200] for text in texts)
    again = 1 - len(usual) / count
    return [
        Doubt("short", short, f"{short:.0%} of the texts are shorter than a sentence or two"),
        Doubt("marks", marks, f"{marks:.0%} of the texts hold marks like a speaker's"),
        Doubt("again", again, f"{again:.0%} of the texts were met before"),
    ]


def _marked_share(texts: Sequence[str]) -> float:
    """Share of the texts with a speaker's mark or a separator that conversations are cut at."""
    return sum(_has_speaker_mark(text[:4000]) for text in texts) / max(1, len(texts))


def _has_speaker_mark(text: str) -> bool:
    if _SEPARATOR.search(text):
        return True
    names = (next(filter(None, match.groups()), "") for match in _MARK.finditer(text))
    return sum(speaker_role(name) in ("user", "assistant") for name in names) > 1


MOST_CONFIDENCE = 0.97
_BASE_ODDS = {"sft": 1.6, "pt": 0.9}
_SCORE_WEIGHT = 0.6  # per unit of the score's own log-odds
_WEIGHTS = {
    "unused": 1.8,
    "elsewhere": 0.8,
    "rows": 0.4,
    "few": 1.3,
    "ends open": 0.2,
    "echo": 0.6,
    "asked again": 0.9,
    "marks": 0.5,
    "bare": 0.6,
    "short": 0.5,
    "again": 0.4,
    "rival": 1.2,
    "unnamed": 0.7,
}
_NO_LANGUAGE, _PROMPTS_ONLY, _LANGUAGE = 0.95, 0.4, 0.3
_RUNNING_WORDS = 4
_LOOKED_AT = 2_000  # characters of a text


def draft_confidence(draft: Draft, score: float, doubts: Sequence[Doubt]) -> float:
    """The probability that a draft is right, at most what it may claim itself."""
    inside = min(max(score, 0.01), 0.99)
    odds = _BASE_ODDS[draft.kind] + _SCORE_WEIGHT * log(inside / (1 - inside))
    odds -= sum(_WEIGHTS[doubt.name] * doubt.share for doubt in doubts)
    return round(min(MOST_CONFIDENCE, draft.most, 1 / (1 + exp(-odds))), 3)


def nothing_confidence(rows: Sequence[Json], mode: str, best: float, elsewhere: float) -> float:
    """Return the probability that there is nothing to convert: low for data full of language."""
    share = prose_share(rows)
    held = _PROMPTS_ONLY if mode == "sft" and best == 0 else _LANGUAGE
    sure = _NO_LANGUAGE + (held - _NO_LANGUAGE) * min(1.0, share / 0.4)
    return round(max(0.05, sure * (1 - 0.4 * best) * (1 - 0.3 * elsewhere)), 3)


def prose_share(rows: Sequence[Json]) -> float:
    """Share of the characters of some rows that stand in texts of several words."""
    running = whole = 0
    for text in texts_in(rows):
        whole += len(text)
        running += len(text) * (count_words(text[:_LOOKED_AT]) >= _RUNNING_WORDS)
    return running / max(1, whole)


_SLOTS = {
    "user": ("question", "instruction", "input", "context", "title", "options", "body", "history"),
    "assistant": ("answer", "rationale", "chosen", "body"),
    "system": ("system",),
    "text": ("body", "title", "lead", "context"),
    "said": ("utterance",),
}
_GUESS_REASONS = {
    "format": "told by its lines, not by its name",
    "encoding": "the bytes read most like text this way",
    "delimiter": "it parts the lines most evenly",
    "quote": "cells begin and end this way",
    "columns": "the first row reads like the others: there is no header",
}
_GUESS_CONFIDENCE = 0.8
_TARGET_ORDER = ("source", "text", "system", "messages", "where", "meta")


def path_evidence(
    document: MappingDocument, view: View, given: Sequence[Evidence], guessed: dict[str, Json]
) -> list[Evidence]:
    """One piece of evidence for every path and guess of a mapping that has none yet."""
    told = {one.choice for one in given}
    found = [
        _path_reason(target, path, role, view)
        for target, path, role in _document_parts(document)
        if path not in told
    ]
    unique = list({(one.target, one.choice): one for one in found}.values())
    return unique + [
        Evidence(
            target=f"source.{fact}",
            choice=_choice_text(value),
            why=_GUESS_REASONS[fact],
            confidence=_GUESS_CONFIDENCE,
        )
        for fact, value in guessed.items()
        if fact in _GUESS_REASONS
    ]


def order_evidence(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence as people read a mapping: the files, the texts, who speaks, the metadata."""
    places = {kind: place for place, kind in enumerate(_TARGET_ORDER)}
    return sorted(evidence, key=lambda one: places.get(one.target.partition(".")[0], 0))


def _choice_text(value: Json) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return repr(value) if not str(value).strip().isalnum() else str(value)


def _document_parts(document: MappingDocument) -> Iterator[tuple[str, str, str]]:
    """(target, path at the record, role) of every text that a mapping takes."""
    for part in select_parts(document, "text", "system", "messages", "where"):
        if part.key == "messages":
            yield from _message_parts(part.value)
        elif part.key == "where":
            yield "where", part.value["path"], ""
        else:
            yield from ((part.key, path, part.key) for path in _value_paths(part.value))


def _message_parts(message: dict[str, Json]) -> Iterator[tuple[str, str, str]]:
    role, each = message["role"], message.get("each")
    target = f"messages.{role}" if isinstance(role, str) else "messages.content"
    for path in _value_paths(message.get("content")):
        inside = isinstance(each, str) and path != "$"
        yield (
            target,
            f"{each}.{path}" if inside else (path if each is None else str(each)),
            str(role),
        )


def _value_paths(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _value_paths(part)
    elif isinstance(value, dict):
        for key in ("path", "concat", "any_of", "pick"):
            yield from _value_paths(value.get(key))


def _path_reason(target: str, path: str, role: str, view: View) -> Evidence:
    columns = {c.path: c for c in (*view.columns, *view.deep)}
    column = columns.get(path) or columns.get(f"{path}[*]")
    if column is None:
        return Evidence(target=target, choice=path, why="where the texts lie", confidence=0.9)
    named = max((column.named(slot) for slot in _SLOTS.get(role, ())), default=0.0)
    return Evidence(
        target=target,
        choice=path,
        why=describe_column(column),
        confidence=round(0.5 + 0.5 * named, 2),
    )


def describe_column(column: Column) -> str:
    """A column in a few words: its name, how long, how full, what its texts look like."""
    words = f"{column.words:.0f} words" if column.words >= 1 else "a word or less"
    looks = [
        f"{column.looks(look):.0%} {said}"
        for look, said in (("question", "look like questions"), ("code", "look like code"))
        if column.looks(look) >= 0.3
    ]
    filled = [f"in {column.fill:.0%} of the rows"] if column.fill < 0.99 else []
    return ", ".join([f"name {column.name!r}", words, *filled, *looks])
