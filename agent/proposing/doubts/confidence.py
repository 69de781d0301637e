"""Estimate how likely a draft is right, and list what speaks for and against it.

The probability is measured, not felt: wrong choices convert cleanly and only leave traces.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from math import exp, log

from ingot.agent.proposing.columns import Column, View, texts_in
from ingot.agent.proposing.doubts.turn_doubts import Doubt
from ingot.agent.proposing.proposal import Evidence, select_parts, value_paths
from ingot.agent.proposing.readings import Draft
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.text_kinds import MOST_TRANSCRIPTS, count_words, is_question

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


def asking_share(records: Sequence[Record]) -> float:
    """Share of the conversations in which the user asks something, 0 for documents."""
    said = [[m["content"] for m in r.get("messages", ()) if m["role"] == "user"] for r in records]
    return sum(any(map(is_question, texts)) for texts in said) / max(1, len(said))


def _asking_share(texts: Sequence[str]) -> float:
    asking = sum(is_question(text) and not _HEADLINE.match(text) for text in texts)
    return asking / max(1, len(texts))


MOST_CONFIDENCE = 0.97
_MIXED = 0.45  # the most where one text holds what belongs apart, or leaves its answers
_NO_LANGUAGE, _PROMPTS_ONLY, _LANGUAGE = 0.95, 0.4, 0.3
_RUNNING_WORDS = 4
_LOOKED_AT = 2_000  # characters of a text


@lru_cache(maxsize=1)
def _fitted_weights() -> dict[str, Json]:
    """The weights that `benchmarks/mapping/calibrate.py` fitted to cases with known answers."""
    text = files("ingot.agent.proposing.doubts").joinpath("confidence.json").read_text("utf-8")
    return dict(json.loads(text))


def score_doubt(score: float) -> Doubt:
    """How far names and values leave a draft open."""
    inside = min(max(score, 0.01), 0.99)
    return Doubt("score", (log(0.99 / 0.01) - log(inside / (1 - inside))) / 4, f"score {score:.2f}")


def draft_confidence(draft: Draft, doubts: Sequence[Doubt]) -> float:
    """The probability that a draft is right, at most what it may claim itself."""
    fitted = _fitted_weights()
    odds = fitted["base"][draft.kind]
    odds -= sum(
        fitted["weights"].get(doubt.name, fitted["unseen"]) * doubt.share for doubt in doubts
    )
    least = dict.fromkeys(("flagged pieces", "answer key", "rated elements"), 0.0)
    least["transcripts"] = MOST_TRANSCRIPTS
    mixed = any(one.name in least and one.share > least[one.name] for one in doubts)
    most = min(draft.most, _MIXED) if mixed else draft.most
    return round(min(MOST_CONFIDENCE, most, 1 / (1 + exp(-odds))), 3)


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
    "format": "detected from its lines, not from its name",
    "encoding": "the bytes read most like text this way",
    "delimiter": "it splits the lines most evenly",
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
            yield from ((part.key, path, part.key) for path in value_paths(part.value))


def _message_parts(message: dict[str, Json]) -> Iterator[tuple[str, str, str]]:
    role, each = message["role"], message.get("each")
    target = f"messages.{role}" if isinstance(role, str) else "messages.content"
    for path in value_paths(message.get("content")):
        inside = isinstance(each, str) and path != "$"
        yield (
            target,
            f"{each}.{path}" if inside else (path if each is None else str(each)),
            str(role),
        )


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
