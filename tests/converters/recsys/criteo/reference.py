"""What preprocessing has to give: plain Python, one row after another, none of the product's code.

Files are split at newlines, fields at tabs; values are numbered in dicts; training days are
shuffled as the public program does it, as one float32 matrix of all their columns.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

DENSE, SPARSE = 13, 26
FIRST = 2
RARE = 1
SHOWN = 80

Vocabulary = dict[int, tuple[int, int]]
"""Of a column: id and count of each value, in first-seen order."""


@dataclass(frozen=True)
class Raw:
    """An input file: the part's name, the file's, its content, whether lines have a label."""

    name: str
    file: str
    content: bytes
    labelled: bool = True


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a user decides; `known` and `next_ids` are of an earlier run, a column each."""

    dense: str = "ln3"
    threshold: int = 0
    seed: int | None = 0
    compat: str = "exact"
    known: Sequence[Vocabulary] = ()
    next_ids: Sequence[int] = ()
    unseen: str = "new"


@dataclass
class Rows:
    """The rows of a part, as numbers."""

    lines: int = 0
    labels: list[int] = field(default_factory=list)
    dense: list[list[int]] = field(default_factory=list)
    sparse: list[list[int]] = field(default_factory=list)
    missing: list[int] = field(default_factory=lambda: [0] * (DENSE + SPARSE))
    rejects: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Result:
    """What a run writes: arrays by file, vocabularies, lines of rejects.jsonl, stats.json."""

    arrays: dict[str, NDArray[Any]]
    vocabularies: list[Vocabulary]
    next_ids: list[int]
    rejects: list[dict[str, Any]]
    stats: dict[str, Any]


def integer(text: bytes) -> int | None:
    if not re.fullmatch(rb"-?[0-9]+", text):
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


def hexadecimal(text: bytes) -> int | None:
    if not re.fullmatch(rb"[0-9a-fA-F]+", text):
        return None
    number = int(text, 16)
    return number if number < 2**32 else None


def shown(text: bytes) -> str:
    return text[:SHOWN].decode("utf-8", "backslashreplace") + "..." * (len(text) > SHOWN)


@lru_cache(maxsize=8)
def parse(raw: Raw) -> Rows:
    rows = Rows()
    names = ["label"] * raw.labelled
    names += [f"int_{k}" for k in range(DENSE)] + [f"cat_{k}" for k in range(SPARSE)]
    lines = raw.content.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        rows.lines += 1
        reject = _parse_line(line.removesuffix(b"\r"), names, rows)
        if reject:
            place = {"file": raw.file, "line": rows.lines}
            rows.rejects.append({**place, "reason": reject[0], "found": reject[1]})
    return rows


def _parse_line(line: bytes, names: list[str], rows: Rows) -> tuple[str, str] | None:
    fields = line.split(b"\t")
    if len(fields) != len(names):
        return "columns", f"{len(fields)} columns: {shown(line)}"
    numbers = []
    for name, text in zip(names, fields, strict=True):
        number = (hexadecimal if name.startswith("cat_") else integer)(text or b"0")
        if number is None:
            reason = {"l": "label", "i": "dense", "c": "sparse"}[name[0]]
            return reason, f"{name}: {shown(text)}"
        numbers.append(number)
    values = len(names) - DENSE - SPARSE
    rows.labels.append(numbers[0] if values else -1)
    rows.dense.append(numbers[values : values + DENSE])
    rows.sparse.append(numbers[values + DENSE :])
    for at, text in enumerate(fields[values:]):
        rows.missing[at] += not text
    return None


def logarithms(rows: Rows, form: str) -> NDArray[np.float32]:
    raw = np.array(rows.dense, np.int64).reshape(-1, DENSE)
    added = 3 if form == "ln3" else 2 - int(raw.min(initial=2**31))
    wrapped = (raw + added).astype(np.uint64).astype(np.uint32).view(np.int32)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(wrapped, dtype=np.float32)


def number_column(
    values: Sequence[Sequence[int]], at: int, choices: Choices
) -> tuple[list[list[int]], Vocabulary, int]:
    """The ids of a column of every part, its vocabulary, and the next id."""
    known = dict(choices.known[at]) if choices.known else {}
    next_id = choices.next_ids[at] if choices.known else FIRST
    seen = Counter(value for part in values for value in part)
    vocabulary = {value: (id_, count + seen[value]) for value, (id_, count) in known.items()}
    for value, count in seen.items():  # in first-seen order
        if value not in known and choices.unseen == "new":
            vocabulary[value] = (RARE, count)
    for value, (id_, count) in vocabulary.items():
        new = id_ == RARE and choices.unseen == "new"
        if new and seen[value] and count >= choices.threshold:
            vocabulary[value] = (next_id, count)
            next_id += 1
    ids = [[vocabulary.get(value, (RARE, 0))[0] for value in part] for part in values]
    return ids, vocabulary, next_id


def shuffled(
    dense: NDArray[np.float32],
    labels: NDArray[np.int32],
    sparse: NDArray[np.int32],
    choices: Choices,
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32]]:
    np.random.seed(choices.seed)
    if choices.compat == "torchrec_f32":
        whole = np.concatenate([dense, sparse, labels], axis=1, dtype=np.float32)
        np.random.shuffle(whole)
        with np.errstate(invalid="ignore"):  # 2**31 - 1 becomes 2**31, which is no int32
            return whole[:, :DENSE], *(
                part.astype(np.int32) for part in (whole[:, -1:], whole[:, DENSE:-1])
            )
    order = np.arange(len(labels))
    np.random.shuffle(order)
    return dense[order], labels[order], sparse[order]


def run(parts: Sequence[Raw], choices: Choices) -> Result:
    """Preprocess files; days if they are named so."""
    rows = [parse(part) for part in parts]
    columns = [
        number_column([[row[at] for row in part.sparse] for part in rows], at, choices)
        for at in range(SPARSE)
    ]
    dense = [logarithms(part, choices.dense) for part in rows]
    labels = [np.array(part.labels, np.int32).reshape(-1, 1) for part in rows]
    sparse = [
        np.array([ids[number] for ids, _, _ in columns], np.int32).reshape(SPARSE, -1).T
        for number in range(len(parts))
    ]
    training = len(parts) - 1 if parts[0].name.startswith("day_") else 0
    training = 0 if choices.seed is None else training
    if training:
        ends = np.cumsum([len(one) for one in labels[:training]])[:-1]
        mixed = shuffled(
            *(np.concatenate(kind[:training]) for kind in (dense, labels, sparse)), choices
        )
        for kind, whole in zip((dense, labels, sparse), mixed, strict=True):
            kind[:training] = np.split(whole, ends)
    arrays = {}
    for number, part in enumerate(parts):
        arrays[f"{part.name}_dense.npy"] = dense[number]
        arrays[f"{part.name}_labels.npy"] = labels[number]
        arrays[f"{part.name}_sparse.npy"] = sparse[number]
    return Result(
        arrays=arrays,
        vocabularies=[vocabulary for _, vocabulary, _ in columns],
        next_ids=[next_id for _, _, next_id in columns],
        rejects=[one for part in rows for one in part.rejects],
        stats=_stats(parts, rows, columns, choices, training),
    )


def _stats(
    parts: Sequence[Raw],
    rows: list[Rows],
    columns: list[tuple[list[list[int]], Vocabulary, int]],
    choices: Choices,
    training: int,
) -> dict[str, Any]:
    bad = [np.count_nonzero(~np.isfinite(logarithms(one, choices.dense)), axis=0) for one in rows]
    return {
        "rows": sum(len(part.labels) for part in rows),
        "lines": sum(part.lines for part in rows),
        "rejects": _reasons(one for part in rows for one in part.rejects),
        "parts": [
            {**_part(raw, part), "nonfinite": int(bad[number].sum()), "shuffled": number < training}
            for number, (raw, part) in enumerate(zip(parts, rows, strict=True))
        ],
        "dense": [_dense(rows, at, int(sum(one[at] for one in bad))) for at in range(DENSE)],
        "sparse": [
            _sparse(rows, at, *columns[at][:2])
            | ({"unseen_rows": _unseen(rows, at, choices.known[at])} if choices.known else {})
            for at in range(SPARSE)
        ],
    }


def _reasons(rejects: Any) -> dict[str, int]:
    return dict(sorted(Counter(one["reason"] for one in rejects).items()))


def _part(raw: Raw, rows: Rows) -> dict[str, Any]:
    labels = Counter(str(label) if label in (0, 1) else "other" for label in rows.labels)
    return {
        "name": raw.name,
        "file": raw.file,
        "lines": rows.lines,
        "rows": len(rows.labels),
        "rejects": _reasons(rows.rejects),
        "labels": {name: labels[name] for name in ("0", "1", "other")},
        "dense_min": min((min(one) for one in rows.dense), default=None),
    }


def _dense(rows: list[Rows], at: int, nonfinite: int) -> dict[str, Any]:
    values = [one[at] for part in rows for one in part.dense]
    bounds = ["negative", "0", *(str(2**power) for power in range(32))]
    counted = Counter("negative" if x < 0 else "0" if not x else _bucket(x) for x in values)
    return {
        "name": f"int_{at}",
        "missing": sum(part.missing[at] for part in rows),
        "nonfinite": nonfinite,
        "min": min(values, default=None),
        "max": max(values, default=None),
        "sum": sum(values),
        "histogram": {name: counted[name] for name in bounds if counted[name]},
    }


def _bucket(value: int) -> str:
    return str(1 << (value.bit_length() - 1))


def _unseen(rows: list[Rows], at: int, known: Vocabulary) -> int:
    return sum(row[at] not in known for part in rows for row in part.sparse)


def _sparse(
    rows: list[Rows], at: int, ids: list[list[int]], vocabulary: Vocabulary
) -> dict[str, Any]:
    every = [one for part in ids for one in part]
    seen = {row[at] for part in rows for row in part.sparse}
    return {
        "name": f"cat_{at}",
        "missing": sum(part.missing[DENSE + at] for part in rows),
        "distinct": len(seen & set(vocabulary)),
        "vocabulary": len(vocabulary),
        "rare": sum(id_ == RARE for id_, _ in vocabulary.values()),
        "rare_rows": every.count(RARE),
        "max_id": max(every, default=0),
    }
