"""What the texts of a sample's records hold: what is trained on, what is constant, what is no text.

Counts alone: no text leaves this module.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ingot.converters.rows import Json

# Eight numbers and nothing else are no sentence; a short answer to a sum is fewer.
_NUMBERS = re.compile(r"\s*[\[({]?\s*[0-9]+(?:[\s,;|]+[0-9]+){7,}[\s,;|]*[\])}]?\s*")
_LOOKED_AT = 4000  # characters of a text that are looked at; a longer list of numbers begins as one

Record = dict[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How often the most frequent of some texts occurs: `count` of `texts`, `distinct` in all."""

    texts: int
    distinct: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """Counts over the records of a sample.

    Attributes:
        records: number of records.
        trained_records: records with at least one message that is trained on (PT: all).
        chars, trained_chars: characters of all messages or texts, and of those trained on.
        usual: per side (`text`; `prompts`, `answers`) the most frequent text.
        numbers: per side the records whose text is a list of numbers and nothing else.
    """

    records: int = 0
    trained_records: int = 0
    chars: int = 0
    trained_chars: int = 0
    usual: dict[str, Usual] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


def content_of(records: Sequence[Record]) -> Content:
    """Count what the records hold.

    Args:
        records: unified records of one kind.
    """
    sides: dict[str, list[str]] = {}
    chars, trained, trained_records = 0, 0, 0
    for record in records:
        for side, text in _sides(record):
            sides.setdefault(side, []).append(text)
        counted = list(_lengths(record))
        chars += sum(size for size, _ in counted)
        trained += sum(size for size, on in counted if on)
        trained_records += any(on for _, on in counted)
    return Content(
        records=len(records),
        trained_records=trained_records,
        chars=chars,
        trained_chars=trained,
        usual={side: _usual(texts) for side, texts in sides.items()},
        numbers={side: sum(map(is_numbers, texts)) for side, texts in sides.items()},
    )


def _sides(record: Record) -> Iterator[tuple[str, str]]:
    """What is asked and what is answered, as one text each; of a PT record its text."""
    if "text" in record:
        yield "text", record["text"]
        return
    said = record["messages"]
    yield "prompts", _joined(one["content"] for one in said if one["role"] in ("user", "tool"))
    yield "answers", _joined(one["content"] for one in said if one["role"] == "assistant")


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _lengths(record: Record) -> Iterator[tuple[int, bool]]:
    """Characters of each text, and whether it is trained on."""
    if "text" in record:
        yield len(record["text"]), True
        return
    for message in record["messages"]:
        yield len(message["content"]), bool(message["loss_mask"])
    yield len(record.get("system") or ""), False


def _usual(texts: Sequence[str]) -> Usual:
    counts = Counter(texts)
    return Usual(texts=len(texts), distinct=len(counts), count=max(counts.values()))


def is_numbers(text: str) -> bool:
    """Whether a text is a list of at least eight whole numbers, as token ids stored as text are."""
    head = text[:_LOOKED_AT]
    if not head[:64].lstrip(" \t\n[({")[:1].isdigit():
        return False
    if len(text) > _LOOKED_AT:  # the cut may have split a number, which stays one
        head = head.rstrip(" \t\n,;|")
    return _NUMBERS.fullmatch(head) is not None
