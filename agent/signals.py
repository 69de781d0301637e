"""What looks odd about a mapping that converts without an error, in words for a model or a person.

Wrong choices convert cleanly. What they leave are traces: conversations that end with a question,
the same text twice in a record, long texts that nobody takes. None of them is proof.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ingot.agent.mappers.rules.doubts import of_records
from ingot.converters.check import CheckReport
from ingot.converters.mapping import Mapping
from ingot.converters.rows import Json
from ingot.converters.unify import Record

ROWS = 60  # rows that are looked at, with the record made of each
MUCH = 0.3  # share of records, or of characters, from which on a trace is worth a word
LONG = 60  # characters of a text that may well be worth training on
COMPARED = 200  # characters by which a text is looked for
MOST_LOOKED_AT = 20_000  # characters of a record
_TOLD = ("ends open", "marks")

Example = tuple[Json, Record]


def signals(mapping: Mapping, report: CheckReport) -> tuple[str, ...]:
    """The traces, each as one sentence.

    Args:
        mapping: what was run.
        report: what it made of the sample, with as many examples as are to be looked at.
    """
    examples = report.examples[:ROWS]
    records = [record for _, record in examples]
    if not records:
        return ()
    traces = of_records(mapping.kind, records)
    told = [one.seen for one in traces if one.name in _TOLD and one.share >= MUCH]
    split = mapping.group or any(one.each for one in mapping.alternatives())
    return (*told, *_repeats(records), *(() if split else _unused(examples)))


def _repeats(records: Sequence[Record]) -> Iterator[str]:
    """The same long line twice in one text, or the same text from both sides."""
    twice = sum(any(map(_says_twice, texts_of(record))) for record in records) / len(records)
    if twice >= MUCH:
        yield f"in {twice:.0%} of the records one text holds the same long line twice"
    both = sum(_both_sides(record) for record in records) / len(records)
    if both >= MUCH:
        yield f"in {both:.0%} of the records an answer is the question word for word"


def _says_twice(text: str) -> bool:
    lines = [line.strip() for line in text[:MOST_LOOKED_AT].split("\n")]
    counts = Counter(line for line in lines if len(line) >= LONG)
    return any(count > 1 for count in counts.values())


def _both_sides(record: Record) -> bool:
    said: dict[str, set[str]] = {"user": set(), "assistant": set()}
    for message in record.get("messages", ()):
        said.setdefault(message["role"], set()).add(message["content"].strip())
    return bool(said["user"] & said["assistant"])


def _unused(examples: Sequence[Example]) -> Iterator[str]:
    """Paths whose long texts stand in no record, with their share of the rows' long texts."""
    left: Counter[str] = Counter()
    total = 0
    for row, record in examples:
        whole = "\n".join(texts_of(record))
        for path, text in _long_texts(row, ""):
            total += len(text)
            if text.strip()[:COMPARED] not in whole:
                left[path] += len(text)
    for path, chars in left.most_common(3):
        if (share := chars / total) >= MUCH:
            yield f"{path} holds {share:.0%} of the characters of long texts and is not used"


def texts_of(record: Record) -> list[str]:
    """Every text of a unified record."""
    said = [message["content"] for message in record.get("messages", ())]
    return [*said, *(record[key] for key in ("text", "system") if record.get(key))]


def _long_texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if len(value) >= LONG and " " in value.strip():
            yield path or "$", value
    elif isinstance(value, list):
        for one in value:
            yield from _long_texts(one, f"{path}[*]")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _long_texts(one, f"{path}.{key[:60]}" if path else key[:60])
