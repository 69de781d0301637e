"""Which of the texts of the sampled rows the records of a mapping hold."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.judging.trial import Trial, record_texts
from ingot.agent.proposing.columns import parse_json_text
from ingot.agent.proposing.names import NAMED, name_strength
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.rows import Json

WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_ROWS = 100  # that are looked at, or groups of rows
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
        for row, (value, records) in enumerate(_rows(trial)):
            said = [words_of("\n".join(record_texts(record))) for record in records]
            for place, (path, text) in enumerate(_texts(value)):
                key = words_of(text)[:_KEY]
                most = max((one.count(key) for one in said), default=0)
                held = min(most, 1 + (len(key) >= _LONG)) if records else None
                name = path.removeprefix("[*]").removeprefix(".") if grouped else path
                leaves[row, place] = Leaf(row=row, path=name, words=key, held=held)
        return cls(leaves=leaves, grouped=grouped)

    def rows(self) -> set[int]:
        """The rows that give a record."""
        return {leaf.row for leaf in self.leaves.values() if leaf.held is not None}

    def share(self, path: str, rows: set[int]) -> float | None:
        """The share of the texts at a path that the records hold; None of too few."""
        found = [leaf.held for leaf in self.leaves.values() if leaf.path == path]
        if not self.grouped:
            inside = (leaf for leaf in self.leaves.values() if leaf.row in rows)
            found = [leaf.held for leaf in inside if leaf.path == path]
        return sum(map(bool, found)) / len(found) if len(found) >= _FEWEST else None

    def paths(self) -> list[str]:
        """Every path that has a text."""
        return list(dict.fromkeys(leaf.path for leaf in self.leaves.values()))


def _rows(trial: Trial) -> Iterator[tuple[Json, Sequence[dict[str, Json]]]]:
    executor = RowExecutor(trial.mapping, source_name="", language=None)
    nodes = (
        node for batch in sample_batches(trial.sample, trial.mapping) for node in row_nodes(batch)
    )
    for _, node in zip(range(_ROWS), nodes, strict=False):
        yield node.value, executor.row(node)[0]


def _texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts of several words anywhere in a row, also in JSON inside a text."""
    if isinstance(value, str):
        inside = parse_json_text(value) if value[:1] in ("[", "{") else None
        if isinstance(inside, list | dict):
            yield from _texts(inside, path)
        elif is_prose(value):
            yield path, value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, f"{path}[*]")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, f"{path}.{key}" if path else key)


def is_prose(text: str) -> bool:
    """Whether a text has some words: more than a name, a number or a key."""
    head = text[:_LOOK]
    dense = sum(len(word) == 1 and word > "\u3000" for word in WORDS.findall(head))
    return len(head.split()) >= _FEWEST or dense >= _FEWEST


def words_of(text: str) -> str:
    """The words of a text, by which it is found whatever stands between them."""
    return " ".join(WORDS.findall(text.casefold()))


def texts_left_out(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Paths of which a model takes less than the rules, or nothing of what is named so."""
    grouped = model.grouped or bool(rules and rules.grouped)
    rows = model.rows() if rules is None or grouped else model.rows() & rules.rows()
    for path in model.paths():
        taken = model.share(path, rows)
        whole = (rules.share(path, rows) if rules else None) or 0.0
        if taken is None:
            continue
        lost = taken < min(_LOST, whole - _NONE)
        if lost and whole >= _HALF and (taken >= _NONE or (whole >= _WHOLE and _is_named(path))):
            yield f"{path}: {taken:.0%} of its texts are taken, {whole:.0%} by the rules"


def _is_named(path: str) -> bool:
    name = path.replace("[*]", "").rsplit(".", 1)[-1]
    return any(name_strength(name, slot) >= NAMED for slot in _SLOTS)


def other_texts(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Paths of which the rules take some texts, and the model others."""
    if rules is None or model.grouped or rules.grouped:
        return
    for path in model.paths():
        places = [at for at, leaf in model.leaves.items() if leaf.path == path]
        one, other = (
            {at for at in places if at in taken.leaves and taken.leaves[at].held}
            for taken in (model, rules)
        )
        fewest = min(len(one), len(other))
        part = max(len(one), len(other)) < _WHOLE * len(places) and fewest >= _NONE * len(places)
        if len(places) >= _FEWEST and part and 2 * len(one & other) < fewest:
            yield f"others of {path} than the rules"


def texts_taken_twice(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Long texts that stand twice in their record, where those of the rules do not."""
    counts = [
        sum((leaf.held or 0) > 1 for leaf in taken.leaves.values()) if taken else 0
        for taken in (model, rules)
    ]
    if counts[0] > counts[1] and counts[0] >= max(_FEWEST, len(model.rows()) / 3):
        yield f"{counts[0]} texts"


def rows_without_record(model: Taken, rules: Taken | None) -> int:
    """How many rows only the rules make a record of; none where they are a tenth or fewer."""
    if rules is None or model.grouped or rules.grouped:
        return 0
    lost = len(rules.rows() - model.rows())
    return lost if lost > _NONE * len(rules.rows()) else 0
