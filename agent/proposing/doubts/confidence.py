"""What speaks against a mapping, and how likely it is right: what its records and its rows tell.

The probability is measured, not felt: wrong choices convert cleanly and only leave traces.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from math import exp, log

from ingot.agent.proposing.columns import Column, View, parse_json_text, texts_in, values_at
from ingot.agent.proposing.doubts.row_doubts import row_doubts, taken_columns
from ingot.agent.proposing.doubts.turn_doubts import Doubt
from ingot.agent.proposing.names import speaker_role
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import Draft, Reading
from ingot.agent.proposing.rules.text_copies import holds_words
from ingot.converters.errors import count_text
from ingot.converters.mapping.language import Condition, Mapping, Message, Value
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.walk import select_parts, value_paths
from ingot.converters.paths import Node
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.text_kinds import (
    MOST_TRANSCRIPTS,
    bare_words,
    count_words,
    is_question,
    is_transcript,
)

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


def find_doubts(
    reading: Reading, draft: Draft, records: Sequence[Record], source: Source, made_share: float
) -> list[Doubt]:
    """Return what speaks against a draft that was run."""
    view, rows = reading.view, len(reading.view.nodes)
    doubts = [
        *row_doubts(draft, reading, records, source),
        _unused_text_doubt(view, draft),
        other_files_share(source),
        lost_row_doubt(made_share),
        row_count_doubt(rows),
        *record_doubts(draft.kind, records),
    ]
    return [trace for trace in doubts if trace.share > 0]


def lost_row_doubt(made_share: float) -> Doubt:
    """Return how many of the rows give no record."""
    return Doubt("rows", 1 - made_share, f"{1 - made_share:.0%} of the rows give no record")


def row_count_doubt(rows: int) -> Doubt:
    """Return how few rows there are to judge by."""
    return Doubt(
        "few", max(0.0, 1 - rows / _FEW_ROWS), f"only {count_text(rows, 'row')} to judge by"
    )


def _unused_text_doubt(view: View, draft: Draft) -> Doubt:
    """Running text that the draft leaves out and that no text it takes holds."""
    columns = {c.path: c for c in (*view.columns, *view.deep)}
    used = taken_columns(view, draft)
    rows = max((len(c.texts) for c in used), default=0)
    texts = ["\n".join(c.texts[row] for c in used) for row in range(rows)]
    parts = [c.texts for c in used]
    unused = [c for c in columns.values() if c not in used and _is_running_text(c)]
    contained = _count_taken(unused, texts)
    left = [
        c
        for c in unused
        if contained[c.path] <= _RUNNING * sum(c.filled[: len(texts)])
        and not _is_filled_template(c, parts)
    ]
    chars = sum(c.chars for c in left)
    share = chars / max(1, chars + sum(c.chars for c in used))
    if view.each and (around := _outer_text_share(view, texts)) > share:
        return Doubt("unused", around, f"{around:.0%} of the running text of the rows is not used")
    names = ", ".join(c.path for c in sorted(left, key=lambda c: -c.chars)[:3])
    return Doubt("unused", share, f"{share:.0%} of the running text is not used ({names})")


def _outer_text_share(view: View, used_texts: Sequence[str]) -> float:
    """Share of the running text of whole rows that the records inside them do not take."""
    roots = {id(top.value): top.value for top in map(_top_node, view.nodes)}
    if len(view.nodes) < sum(len(values_at(view.each, Node(root))) for root in roots.values()):
        return 0.0  # some of the records were not looked at: what they take is not known
    whole = "\n".join(dict.fromkeys(used_texts))[:_READ_CHARS]
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


def _count_taken(columns: Sequence[Column], texts: Sequence[str]) -> Counter[str]:
    """How many texts of each column stand in what is taken of the same row, signs left aside."""
    counts = Counter[str]()
    for row, whole in enumerate(texts):
        bare = bare_words(whole)
        for column in columns:
            if row < len(column.texts) and column.filled[row]:
                text = column.texts[row].strip()
                is_contained = text[:200] in whole or holds_words(
                    bare, column.bare_texts[row], text
                )
                counts[column.path] += is_contained
    return counts


def _is_filled_template(column: Column, parts: Sequence[Sequence[str]]) -> bool:
    """Whether a column only puts what is taken into a template: it holds all of it."""
    rows = [[t.strip() for t in row if t.strip()] for row in zip(*parts, strict=False)]
    whole = [all(t in text for t in row) for text, row in zip(column.texts, rows, strict=False)]
    return len(parts) > 1 and sum(whole) > _RUNNING * len(whole)


def other_files_share(source: Source) -> Doubt:
    """Return data files of another shape beside those that are read, by their size."""
    left = {file.name for file in source.left_out if file.kind == "shape"}
    sizes = {entry.name: entry.bytes for entry in source.listing.entries}
    other = sum(sizes.get(name, 0) for name in left)
    read = sum(file.bytes for file in source.files)
    share = other / max(1, other + read)
    return Doubt("elsewhere", share, f"{share:.0%} of the data lies in files of another shape")


def record_doubts(kind: str, records: Sequence[Record]) -> list[Doubt]:
    """Return what the records alone tell; `kind` is `pt` or `sft`."""
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
    whole = sum(any(is_transcript(m["content"]) for m in talk) for talk in talks) / count
    answers = [m["content"].strip() for talk in talks for m in talk if m["role"] == "assistant"]
    alike = 1 - len(set(answers)) / max(1, len(answers))
    bare = sum(_answers_are_bare(talk) for talk in talks) / count
    return [
        Doubt("ends open", ends, f"{ends:.0%} of the conversations end without an answer"),
        Doubt("echo", echo, f"{echo:.0%} of the answers occur in their question"),
        Doubt("asked again", again, f"{again:.0%} of the questions repeat an earlier one"),
        Doubt("marks", marks, f"{marks:.0%} of the texts hold marks of speakers, such as Human:"),
        Doubt("transcripts", whole, f"{whole:.0%} of the records hold a conversation in one text"),
        Doubt("same answers", alike, f"{alike:.0%} of the answers repeat an earlier one"),
        Doubt("bare", bare, f"{bare:.0%} of the answers are a word or a number"),
    ]


def _repeats_question(talk: Sequence[dict[str, Json]]) -> bool:
    pairs = pairwise(talk)
    return any(
        b["role"] == "assistant" and len(b["content"]) > 3 and b["content"].strip() in a["content"]
        for a, b in pairs
    )


def _answers_are_bare(talk: Sequence[dict[str, Json]]) -> bool:
    answers = [m["content"].strip() for m in talk if m["role"] == "assistant"]
    return bool(answers) and all(count_words(text) < 2 for text in answers)


def _text_doubts(records: Sequence[Record]) -> list[Doubt]:
    texts = [record["text"] for record in records]
    count = max(1, len(texts))
    short = sum(count_words(text[:400]) < _SENTENCE_WORDS for text in texts) / count
    marks = _marked_share(texts)
    usual = Counter(text.strip()[:200] for text in texts)
    again = 1 - len(usual) / count
    return [
        Doubt("short", short, f"{short:.0%} of the texts are shorter than a sentence or two"),
        Doubt("marks", marks, f"{marks:.0%} of the texts hold marks of speakers, such as Human:"),
        Doubt("again", again, f"{again:.0%} of the texts repeat an earlier one"),
    ]


_FRAMED = re.compile(r"\[[^\[\]]{4,60}\]|<[^<>]{4,60}>|【[^【】]{2,60}】|\{[^{}\":]{4,60}\}")


def masked_share(records: Sequence[Record]) -> float:
    """Return the share of messages that are masked: signs without words, or a repeated frame."""
    texts = [m["content"].strip() for record in records for m in record.get("messages", ())]
    framed = [re.sub(r"\d+", "0", text) for text in texts if _FRAMED.fullmatch(text)]
    again = sum(count for count in Counter(framed).values() if count > 1)
    masked = again + sum(map(_is_mask, texts))
    return masked / max(1, len(texts))


def _is_wordless(text: str) -> bool:
    return len(text) > 1 and not re.search(r"\w", text) and len(set(text) - {" "}) == 1


def _is_mask(text: str) -> bool:
    """Whether a text is a mask, or JSON with masks where its texts would stand."""
    value = parse_json_text(text)
    parts = [text for text in texts_in(value) if text.strip()] if value is not None else []
    masks = sum(map(_is_wordless, parts))
    return _is_wordless(text) or (masks > 0 and not any(count_words(part) > 2 for part in parts))


def _marked_share(texts: Sequence[str]) -> float:
    """Share of the texts with a speaker's mark or a separator that conversations are cut at."""
    return sum(_has_speaker_mark(text[:4000]) for text in texts) / max(1, len(texts))


def _has_speaker_mark(text: str) -> bool:
    if _SEPARATOR.search(text):
        return True
    names = (next(filter(None, match.groups()), "") for match in _MARK.finditer(text))
    return sum(speaker_role(name) in ("user", "assistant") for name in names) > 1


# "How to bake bread" is a headline; with a question mark, or as an order, it asks.
_HEADLINE = re.compile(r"\s*(?:what|who|whose|when|where|why|how|which)\b[^?]*$", re.IGNORECASE)
_PROMPT_SHARE = 0.85  # share of asking texts from which on they are prompts and no documents


def open_mode_factor(draft: Draft, records: Sequence[Record]) -> float:
    """Return a factor for the score of a draft, from what it makes of the rows."""
    if draft.kind == "pt":
        prompts = _asking_share([record["text"] for record in records]) >= _PROMPT_SHARE
        return 0.3 if prompts or not draft.explicit else 0.85
    if draft.explicit:
        return 1.0
    asked, replies = (
        _asking_share([m["content"] for r in records for m in r["messages"] if m["role"] == role])
        for role in ("user", "assistant")
    )
    return 0.6 + 0.4 * max(0.0, asked - replies)


def asking_share(records: Sequence[Record]) -> float:
    """Return the share of the conversations in which the user asks something, 0 for documents."""
    questions = [
        [m["content"] for m in r.get("messages", ()) if m["role"] == "user"] for r in records
    ]
    return sum(any(map(is_question, texts)) for texts in questions) / max(1, len(questions))


def _asking_share(texts: Sequence[str]) -> float:
    asking = sum(is_question(text) and not _HEADLINE.match(text) for text in texts)
    return asking / max(1, len(texts))


MOST_CONFIDENCE = 0.97
_MIXED = 0.45  # the most where one text holds what belongs apart, or leaves its answers
_LIMITS = {"answer key": 0.0, "rated elements": 0.0, "transcripts": MOST_TRANSCRIPTS}  # its doubts
_NO_LANGUAGE, _PROMPTS_ONLY, _LANGUAGE = 0.95, 0.4, 0.3
_RUNNING_WORDS = 4
_LOOKED_AT = 2_000  # characters of a text


@lru_cache(maxsize=1)
def _fitted_weights() -> dict[str, Json]:
    """The weights that `benchmarks/mapping/calibrate.py` fitted to cases with known answers."""
    text = files("ingot.agent.proposing.doubts").joinpath("confidence.json").read_text("utf-8")
    return dict(json.loads(text))


def score_doubt(score: float) -> Doubt:
    """Return how far names and values leave a draft open."""
    inside = min(max(score, 0.01), 0.99)
    share = (log(0.99 / 0.01) - log(inside / (1 - inside))) / 4
    return Doubt("score", share, f"names and values leave it open (score {score:.2f})")


def draft_confidence(draft: Draft, doubts: Sequence[Doubt]) -> float:
    """Return the probability that a draft is right, at most what it may claim itself."""
    odds = _fitted_weights()["base"][draft.kind] - sum(map(_doubt_weight, doubts))
    most = min(draft.most, _MIXED) if any(map(_limits, doubts)) else draft.most
    return round(min(MOST_CONFIDENCE, most, 1 / (1 + exp(-odds))), 3)


def _doubt_weight(doubt: Doubt) -> float:
    """What a doubt takes from the log-odds of a draft."""
    fitted = _fitted_weights()
    return float(fitted["weights"].get(doubt.name, fitted["unseen"]) * doubt.share)


def _limits(doubt: Doubt) -> bool:
    """Whether a doubt limits the confidence, whatever else is known."""
    return doubt.name in _LIMITS and doubt.share > _LIMITS[doubt.name]


def strongest_first(doubts: Sequence[Doubt]) -> list[Doubt]:
    """Sort doubts: those that limit the confidence, then by what they take, the score last."""

    def rank(doubt: Doubt) -> tuple[bool, bool, float]:
        weight = _doubt_weight(doubt) or doubt.share / 2  # a fit may say that one takes nothing
        return not _limits(doubt), doubt.name == "score", -weight

    return sorted(doubts, key=rank)


def nothing_confidence(rows: Sequence[Json], mode: str, best: float, elsewhere: float) -> float:
    """Return the probability that there is nothing to convert: low for data full of language."""
    share = prose_share(rows)
    limit = _PROMPTS_ONLY if mode == "sft" and best == 0 else _LANGUAGE
    sure = _NO_LANGUAGE + (limit - _NO_LANGUAGE) * min(1.0, share / 0.4)
    return round(max(0.05, sure * (1 - 0.4 * best) * (1 - 0.3 * elsewhere)), 3)


def prose_share(rows: Sequence[Json]) -> float:
    """Return the share of the characters of some rows that stand in texts of several words."""
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
    "format": "detected from its lines, not from its name",
    "encoding": "the bytes read most like text this way",
    "delimiter": "it splits the lines most evenly",
    "quote": "cells begin and end this way",
    "columns": "the first row reads like the others: there is no header",
}
_GUESS_CONFIDENCE = 0.8
_TARGET_ORDER = ("source", "text", "system", "messages", "where", "meta")


def path_evidence(
    mapping: Mapping, view: View, evidence: Sequence[Evidence], guessed: dict[str, Json]
) -> list[Evidence]:
    """Return one piece of evidence for every path and guess of a mapping that has none yet."""
    choices = {item.choice for item in evidence}
    additional = [
        _path_reason(target, path, role, view)
        for target, path, role in _stated_paths(mapping)
        if path not in choices
    ]
    unique = list({(item.target, item.choice): item for item in additional}.values())
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
    """Sort the evidence as people read a mapping: files, texts, speakers, metadata."""
    places = {kind: place for place, kind in enumerate(_TARGET_ORDER)}
    return sorted(evidence, key=lambda item: places.get(item.target.partition(".")[0], 0))


def _choice_text(value: Json) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return repr(value) if not str(value).strip().isalnum() else str(value)


def _stated_paths(mapping: Mapping) -> Iterator[tuple[str, str, str]]:
    """(target, path at the record, role) of every text that a mapping takes."""
    for part in select_parts(mapping, "text", "system", "messages", "where"):
        if isinstance(part.value, Message):
            yield from _message_paths(part.value)
        elif isinstance(part.value, Condition):
            yield "where", part.value.path.text, ""
        elif isinstance(part.value, Value):
            yield from ((part.key, path, part.key) for path in value_paths(part.value))


def _message_paths(message: Message) -> Iterator[tuple[str, str, str]]:
    role = message.role if isinstance(message.role, str) else ""
    target, each = f"messages.{role or 'content'}", [path.text for path in message.each]
    for path in value_paths(message.content):
        around = each[0] if len(each) == 1 else str(each)
        inside = len(each) == 1 and path != "$"
        yield target, f"{around}.{path}" if inside else around if each else path, role


def _path_reason(target: str, path: str, role: str, view: View) -> Evidence:
    columns = {c.path: c for c in (*view.columns, *view.deep)}
    column = columns.get(path) or columns.get(f"{path}[*]")
    if column is None:
        return Evidence(target=target, choice=path, why="where the texts lie", confidence=0.9)
    named = max((column.named(slot) for slot in _SLOTS.get(role, ())), default=0.0)
    words = f"{column.words:.0f} words" if column.words >= 1 else "a word or less"
    looks = [
        f"{column.looks(look):.0%} {words}"
        for look, words in (("question", "look like questions"), ("code", "look like code"))
        if column.looks(look) >= 0.3
    ]
    filled = [f"in {column.fill:.0%} of the rows"] if column.fill < 0.99 else []
    return Evidence(
        target=target,
        choice=path,
        why=", ".join([f"name {column.name!r}", words, *filled, *looks]),
        confidence=round(0.5 + 0.5 * named, 2),
    )
