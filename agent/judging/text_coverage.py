"""Find the texts of the sampled rows in the records that a mapping makes of them.

Signals are sentences about texts that are left out or stand twice. `Taken` holds how often each
text is in its record, so that what a model and the rules take can be compared.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ingot.agent.judging.trial import Example, Trial, row_records
from ingot.agent.proposing.columns import parse_json_text
from ingot.agent.proposing.doubts.confidence import record_doubts
from ingot.agent.proposing.names import NAMED, name_strength
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.check import CheckReport
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.paths import quote_name
from ingot.converters.rows import Json

ROWS = 60  # rows that are looked at, with the record made of each
NOTABLE_SHARE = 0.3  # share of records, or of characters, from which on a trace is worth a word
LONG_TEXT = 60  # characters of a text that may well be worth training on
COMPARED_CHARS = 200  # characters by which a text is looked for
MOST_LOOKED_AT = 20_000  # characters of a record
_LONGEST_PATH = 160  # characters of one that is told
_SHOWN_DOUBTS = ("ends open", "marks")


def find_signals(mapping: Mapping, report: CheckReport) -> tuple[str, ...]:
    """Return the signals, each as one sentence."""
    examples = report.examples[:ROWS]
    records = [record for _, record in examples]
    if not records:
        return ()
    traces = record_doubts(mapping.kind, records)
    signals = [
        one.seen for one in traces if one.name in _SHOWN_DOUBTS and one.share >= NOTABLE_SHARE
    ]
    split = mapping.group or any(one.each for one in mapping.alternatives())
    return (*signals, *_repeated_texts(records), *(() if split else _unused_paths(examples)))


def _repeated_texts(records: Sequence[Record]) -> Iterator[str]:
    """The same long line twice in one text, or the same text from both sides."""
    twice = sum(any(map(_repeats_line, record_texts(record))) for record in records) / len(records)
    if twice >= NOTABLE_SHARE:
        yield f"in {twice:.0%} of the records one text holds the same long line twice"
    same_share = sum(_is_on_both_sides(record) for record in records) / len(records)
    if same_share >= NOTABLE_SHARE:
        yield f"in {same_share:.0%} of the records an answer is the question word for word"


def _repeats_line(text: str) -> bool:
    lines = [line.strip() for line in text[:MOST_LOOKED_AT].split("\n")]
    counts = Counter(line for line in lines if len(line) >= LONG_TEXT)
    return any(count > 1 for count in counts.values())


def _is_on_both_sides(record: Record) -> bool:
    texts_by_role: dict[str, set[str]] = {"user": set(), "assistant": set()}
    for message in record.get("messages", ()):
        texts_by_role.setdefault(message["role"], set()).add(message["content"].strip())
    return bool(texts_by_role["user"] & texts_by_role["assistant"])


def _unused_paths(examples: Sequence[Example]) -> Iterator[str]:
    """Paths whose long texts stand in no record, with their share of the rows' long texts."""
    unused: Counter[str] = Counter()
    total = 0
    for row, record in examples:
        used_text = "\n".join(record_texts(record))
        for path, text in texts_inside(row):
            if len(text) < LONG_TEXT or " " not in text.strip():
                continue
            total += len(text)
            if text.strip()[:COMPARED_CHARS] not in used_text:
                unused[path or "$"] += len(text)
    for path, chars in unused.most_common(3):
        if (share := chars / total) >= NOTABLE_SHARE:
            short_path = shorten_text(path, _LONGEST_PATH, "...")
            yield f"{short_path} holds {share:.0%} of the characters of long texts and is not used"


def record_texts(record: Record) -> list[str]:
    """Return every text of a unified record."""
    contents = [message["content"] for message in record.get("messages", ())]
    return [*contents, *(record[key] for key in ("text", "system") if record.get(key))]


def texts_inside(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for one in value:
            yield from texts_inside(one, f"{path}[*]")
    elif isinstance(value, dict):
        for key, one in value.items():
            step = quote_name(key)
            dot = "." if path and step[0] != "[" else ""
            yield from texts_inside(one, f"{path}{dot}{step}")


WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_FIRST_ROWS = 100  # that are looked at, or groups of rows
_FEWEST = 3  # words of a text; texts of a path
_LOOK = 400  # characters by which a text is told from a name
_KEY = 300  # characters of the words by which a text is looked for
_LONG = 60  # characters of the words of a text that does not stand twice in a text by chance
_WHOLE, _HALF, _NONE = 0.9, 0.5, 0.1  # shares of the texts of a path
_SLOTS = ("question", "instruction", "answer", "body", "utterance")
_LOST = 0.85  # a path of which less is taken is not taken whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """A text of the rows: where it stands, how often one record holds it (None: no record)."""

    row: int
    path: str
    words: str
    held: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The texts of the rows; those of groups have no row of their own."""

    leaves: dict[tuple[int, int], Leaf]
    grouped: bool

    @classmethod
    def of(cls, trial: Trial) -> "Taken":
        """Run a mapping on the first rows of its sample, and look for their texts."""
        grouped = bool(trial.mapping.group)
        leaves = {}
        for row, (value, records) in enumerate(islice(row_records(trial), _FIRST_ROWS)):
            record_words = [words_of("\n".join(record_texts(record))) for record in records]
            for number, (path, text) in enumerate(_prose_texts(value)):
                key = words_of(text)[:_KEY]
                occurrences = max((one.count(key) for one in record_words), default=0)
                count = min(occurrences, 1 + (len(key) >= _LONG)) if records else None
                name = path.removeprefix("[*]").removeprefix(".") if grouped else path
                leaves[row, number] = Leaf(row=row, path=name, words=key, held=count)
        return cls(leaves=leaves, grouped=grouped)

    def rows(self) -> set[int]:
        """Return the rows that give a record."""
        return {leaf.row for leaf in self.leaves.values() if leaf.held is not None}

    def share(self, path: str, rows: set[int]) -> float | None:
        """Return the share of the texts at a path that the records hold, None if they are few."""
        counts = [leaf.held for leaf in self.leaves.values() if leaf.path == path]
        if not self.grouped:
            inside = (leaf for leaf in self.leaves.values() if leaf.row in rows)
            counts = [leaf.held for leaf in inside if leaf.path == path]
        return sum(map(bool, counts)) / len(counts) if len(counts) >= _FEWEST else None

    def paths(self) -> list[str]:
        """Return every path that has a text."""
        return list(dict.fromkeys(leaf.path for leaf in self.leaves.values()))


def _prose_texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts of several words anywhere in a row, also in JSON inside a text."""
    for inner_path, text in texts_inside(value, path):
        inside = parse_json_text(text) if text[:1] in ("[", "{") else None
        if inside is not None:
            yield from _prose_texts(inside, inner_path)
        elif is_prose(text):
            yield inner_path, text


def is_prose(text: str) -> bool:
    """Return whether a text has several words: more than a name, a number or a key."""
    head = text[:_LOOK]
    dense = sum(len(word) == 1 and word > "\u3000" for word in WORDS.findall(head))
    return len(head.split()) >= _FEWEST or dense >= _FEWEST


def words_of(text: str) -> str:
    """Return the words of a text, by which it is found despite other separators."""
    return " ".join(WORDS.findall(text.casefold()))


def texts_left_out(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Yield paths of which a model takes less than the rules, or nothing if the name says text."""
    grouped = model.grouped or bool(rules and rules.grouped)
    rows = model.rows() if rules is None or grouped else model.rows() & rules.rows()
    for path in model.paths():
        model_share = model.share(path, rows)
        rules_share = (rules.share(path, rows) if rules else None) or 0.0
        if model_share is None:
            continue
        lost = model_share < min(_LOST, rules_share - _NONE)
        if (
            lost
            and rules_share >= _HALF
            and (model_share >= _NONE or (rules_share >= _WHOLE and _is_named(path)))
        ):
            yield (
                f"{path}: {model_share:.0%} of its texts are taken, {rules_share:.0%} by the rules"
            )


def _is_named(path: str) -> bool:
    name = path.replace("[*]", "").rsplit(".", 1)[-1]
    return any(name_strength(name, slot) >= NAMED for slot in _SLOTS)


def other_texts(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Yield paths of which the rules take some texts and the model others."""
    if rules is None or model.grouped or rules.grouped:
        return
    for path in model.paths():
        keys = [key for key, leaf in model.leaves.items() if leaf.path == path]
        ours, theirs = (
            {key for key in keys if key in coverage.leaves and coverage.leaves[key].held}
            for coverage in (model, rules)
        )
        fewest = min(len(ours), len(theirs))
        part = max(len(ours), len(theirs)) < _WHOLE * len(keys) and fewest >= _NONE * len(keys)
        if len(keys) >= _FEWEST and part and 2 * len(ours & theirs) < fewest:
            yield f"others of {path} than the rules"


def texts_taken_twice(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Yield long texts that occur twice in their record, but not in that of the rules."""
    counts = [
        sum((leaf.held or 0) > 1 for leaf in coverage.leaves.values()) if coverage else 0
        for coverage in (model, rules)
    ]
    if counts[0] > counts[1] and counts[0] >= max(_FEWEST, len(model.rows()) / 3):
        yield f"{counts[0]} texts"


def rows_without_record(model: Taken, rules: Taken | None) -> int:
    """Count the rows of which only the rules make a record; 0 if they are a tenth or fewer."""
    if rules is None or model.grouped or rules.grouped:
        return 0
    lost = len(rules.rows() - model.rows())
    return lost if lost > _NONE * len(rules.rows()) else 0
