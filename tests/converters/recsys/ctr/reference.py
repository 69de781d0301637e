"""The rules of a build once more: plain Python, token by token, nothing taken from the package.

Only the featuremap's data classes are shared. Slow, and meant to be read beside the rules.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from struct import error as struct_error
from struct import pack, unpack
from typing import Any, NamedTuple

import xxhash

from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap

Cell = int | float | list[int] | list[float]
Row = dict[str, Any]
Source = tuple[int, str]
SHOWN = 200


class Token(NamedTuple):
    """A token of a row: its text and its value, a finite float32."""

    text: str
    value: float


@dataclass(kw_only=True)
class Line:
    """A line that is kept: its number, its columns before the list, its tokens by field."""

    number: int
    columns: list[bytes]
    tokens: dict[str, list[Token]]


@dataclass(kw_only=True)
class Expected:
    """What a build has to make: rows by split, rejects, stats.json and the ids of each token."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {"train": [], "valid": []})
    rejects: list[dict[str, Any]] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)
    vocabularies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def float32(number: float) -> float:
    """The nearest float32; what is not finite becomes 0.0."""
    try:
        rounded: float = unpack("<f", pack("<f", number))[0]
    except (OverflowError, struct_error):
        return 0.0
    return rounded if math.isfinite(rounded) else 0.0


def is_finite32(number: float) -> bool:
    """Whether a number is still finite as a float32."""
    try:
        return math.isfinite(unpack("<f", pack("<f", number))[0])
    except OverflowError:
        return False


def token_hash(seed: int, source: Source, text: str, bucket: int) -> int:
    """The contract's hash of a token."""
    digest = blake2b(f"{seed}:{source[0]}:{source[1]}:{text}".encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % bucket


def lines_of(content: bytes) -> list[bytes]:
    """The lines of a file; a carriage return before the end of a line is none of it."""
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


class Reader:
    """Reads the lines of one file."""

    def __init__(self, file: str, fields: Iterable[str], counts: Counter[str]) -> None:
        self.file, self.fields, self.counts = file, set(fields), counts
        self.rejects: list[dict[str, Any]] = []

    def reject(self, number: int, reason: str, found: bytes) -> None:
        text = found[:SHOWN].decode(errors="backslashreplace")
        self.rejects.append({"file": self.file, "row": number, "reason": reason, "found": text})

    def read(self, content: bytes, commas: int, entity: int, labels: tuple[int, ...]) -> list[Line]:
        kept = []
        for number, line in enumerate(lines_of(content)):
            *columns, tokens = line.split(b",", commas)
            if len(columns) < commas:
                self.reject(number, "columns", line)
            elif wrong := [columns[at] for at in labels if columns[at] not in (b"0", b"1")]:
                self.reject(number, "label", wrong[0])
            elif not columns[entity] or text_of(columns[entity]) is None:
                self.reject(number, "entity_id", columns[entity])
            else:
                found = self.tokens(tokens, columns[-1])
                kept.append(Line(number=number, columns=columns, tokens=found))
        return kept

    def tokens(self, content: bytes, stated: bytes) -> dict[str, list[Token]]:
        found = defaultdict(list)
        pieces = [piece for piece in content.split(b"\x01") if piece]
        self.counts["read"] += len(pieces)
        digits = stated.isdigit() and len(stated) <= 9
        self.counts["wrong_count"] += not digits or int(stated) != len(pieces)
        for piece in pieces:
            parsed = self.token(piece)
            if parsed is not None:
                found[parsed[0]].append(parsed[1])
        return dict(found)

    def token(self, piece: bytes) -> tuple[str, Token] | None:
        name, cut, rest = piece.partition(b"\x02")
        if not cut:
            return self.drop("no_id")
        raw, cut, number = rest.partition(b"\x03")
        if not cut:
            return self.drop("no_value")
        text, value = text_of(raw), number_of(number)
        if text is None:
            return self.drop("not_utf8")
        if value is None:
            return self.drop("bad_number")
        self.counts["not_finite"] += not is_finite32(value)
        if text_of(name) not in self.fields:
            return self.drop("unmapped")
        return name.decode(), Token(text, float32(value))

    def drop(self, reason: str) -> None:
        self.counts[reason] += 1


def text_of(raw: bytes) -> str | None:
    """Bytes as text, if they are any."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def number_of(raw: bytes) -> float | None:
    """What `float` makes of bytes."""
    try:
        return float(raw.decode())
    except ValueError:
        return None


@dataclass(kw_only=True)
class Sample:
    """A row to be written: its line, its split, its labels, its common features."""

    line: Line
    split: str
    entity: str
    click: int
    purchase: int
    common: dict[str, list[Token]] | None

    def tokens(self, source: Source) -> list[Token]:
        src, name = source
        return (self.line.tokens if src == 0 else self.common or {}).get(name, [])


class Ranks:
    """The tokens of a field by how often they stand in train rows."""

    def __init__(self, tokens: Iterable[str]) -> None:
        counts = Counter(tokens)
        ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0].encode()))
        self.counts = dict(ordered)
        self.ranks = {text: rank for rank, text in enumerate(self.counts)}

    def key(self, text: str) -> tuple[float, bytes]:
        return self.ranks.get(text, math.inf), text.encode()


class Encoding:
    """One feature: selects and encodes."""

    def __init__(self, feature: Feature, featuremap: FeatureMap, ranks: Ranks) -> None:
        self.feature, self.map, self.ranks = feature, featuremap, ranks

    def number(self, text: str) -> tuple[int, str]:
        """The id of a token and whether it is of the head, of the tail or unknown."""
        one = self.feature
        rank = self.ranks.ranks.get(text, math.inf)
        if one.encoding != "hash" and rank < (one.vocab_num_tokens or 0):
            return 3 + int(rank), "head"
        if one.encoding == "vocab":
            return 2, "oov"
        hashed = token_hash(self.map.hash_seed, one.source, text, one.hash_bucket or 0)
        if one.encoding == "hash":
            return 2 + hashed, "hash"
        low = self.map.tail_ids == "contract"
        return (2 if low else 3 + (one.vocab_num_tokens or 0)) + hashed, "tail"

    def choose(self, tokens: dict[str, float]) -> list[str]:
        """The texts that are written, in their order."""

        def by_value(text: str) -> tuple[float, bytes]:
            return -tokens[text], text.encode()

        longest = self.feature.max_len
        if longest is None:
            return sorted(tokens, key=lambda text: (-tokens[text], *self.ranks.key(text)))[:1]
        first: list[str] = []
        if self.mixes(list(tokens.values())):
            share = Fraction(self.feature.token_select.value_fraction).limit_denominator(10**6)
            first = sorted(tokens, key=by_value)[: math.ceil(longest * share)]
        rest = sorted(tokens.keys() - first, key=self.ranks.key)
        return [*first, *rest][:longest]

    def mixes(self, values: list[float]) -> bool:
        select = self.feature.token_select
        if select.strategy != "auto":
            return select.strategy == "auto_mix"
        if not self.feature.use_value or not values:
            return False
        others = sum(value != 1.0 for value in values) / len(values)
        deviation = statistics.pstdev(values)
        return others >= select.non_one_ratio_gte or deviation >= select.value_std_gte

    def cells(self, tokens: dict[str, float]) -> tuple[list[int], list[float], list[str]]:
        """Ids, values and kinds of a row."""
        if not tokens:
            return [1], [1.0], []
        chosen = self.choose(tokens)
        numbers = [self.number(text) for text in chosen]
        return [i for i, _ in numbers], [tokens[text] for text in chosen], [k for _, k in numbers]


def largest(tokens: Iterable[Token]) -> dict[str, float]:
    """Each token once, with its largest value."""
    distinct: dict[str, float] = {}
    for text, value in tokens:
        distinct[text] = max(value, distinct.get(text, -math.inf))
    return distinct


class Builder:
    """A whole build."""

    def __init__(self, skeleton: bytes, common: bytes, featuremap: FeatureMap) -> None:
        self.map = featuremap
        self.counts: Counter[str] = Counter()
        names = {src: {one.field for one in featuremap.of_src(src)} for src in (0, 1)}
        shared = Reader("common.csv", names[1], self.counts)
        self.common_lines = shared.read(common, commas=2, entity=0, labels=())
        own = Reader("skeleton.csv", names[0], self.counts)
        self.lines = own.read(skeleton, commas=5, entity=3, labels=(1, 2))
        self.by_entity = {one.columns[0].decode(): one.tokens for one in self.common_lines}
        self.common_rejects, self.own_rejects = shared.rejects, own.rejects
        self.samples = [self.sample(line) for line in self.lines]
        self.kept = [
            one
            for one in self.samples
            if featuremap.funnel != "drop" or one.click or not one.purchase
        ]

    def sample(self, line: Line) -> Sample:
        entity = line.columns[3].decode()
        digest = xxhash.xxh64_intdigest(f"{self.map.split_seed}:{entity}".encode())
        split = "train" if digest / 2**64 < self.map.train_ratio else "valid"
        return Sample(
            line=line,
            split=split,
            entity=entity,
            click=int(line.columns[1]),
            purchase=int(line.columns[2]),
            common=self.by_entity.get(entity),
        )

    def ranks(self, source: Source) -> Ranks:
        train = (one for one in self.kept if one.split == "train")
        return Ranks(token.text for one in train for token in one.tokens(source))

    def new_tokens(self, encoding: Encoding) -> dict[str, int]:
        valid = (one for one in self.kept if one.split == "valid")
        texts = [token.text for one in valid for token in one.tokens(encoding.feature.source)]
        unseen = sum(text not in encoding.ranks.counts for text in texts)
        return {"new_tokens": len(texts), "new_unseen": unseen}

    def expected(self) -> Expected:
        by_source = {source: self.ranks(source) for source in self.map.sources}
        encodings = [Encoding(one, self.map, by_source[one.source]) for one in self.map.features]
        done = Expected(rejects=self.common_rejects + self.own_rejects)
        for one in self.kept:
            done.rows[one.split].append(self.row(one, encodings))
        done.vocabularies = {
            e.feature.name: [
                {"token": text, "count": count, "id": e.number(text)[0]}
                for text, count in e.ranks.counts.items()
            ]
            for e in encodings
        }
        done.stats = self.stats(encodings)
        return done

    def row(self, one: Sample, encodings: list[Encoding]) -> Row:
        both = one.click * one.purchase
        bought = both if self.map.funnel == "coerce" else one.purchase
        row: Row = {"y_ctr": one.click, "y_cvr": bought, "y_ctcvr": both}
        row["click_mask"] = 1 if self.map.click_mask == "exposed" else one.click
        row |= {"row_id": one.line.number, "entity_id": one.entity}
        for encoding in encodings:
            feature = encoding.feature
            ids, values, _ = encoding.cells(largest(one.tokens(feature.source)))
            multi = feature.max_len is not None
            row[f"{feature.name}_idx"] = ids if multi else ids[0]
            if feature.use_value:
                row[f"{feature.name}_val"] = values if multi else values[0]
        return row

    def stats(self, encodings: list[Encoding]) -> dict[str, Any]:
        samples = Counter(line.columns[0] for line in self.lines)
        in_split = {name: [s for s in self.kept if s.split == name] for name in ("train", "valid")}
        return {
            "rows": {
                "read": len(self.lines) + len(self.own_rejects),
                **{name: len(some) for name, some in in_split.items()},
                "rejected": len(self.own_rejects),
                "dropped": len(self.samples) - len(self.kept),
            },
            "rejects": dict(Counter(one["reason"] for one in self.own_rejects)),
            "common_rejects": dict(Counter(one["reason"] for one in self.common_rejects)),
            "entities": self.entities(),
            "tokens": {name: self.counts[name] for name in COUNTED},
            "samples": {"repeated": len(self.lines) - len(samples)},
            "splits": {name: self.split(some, encodings) for name, some in in_split.items()},
            "vocab": {
                one.feature.name: vocabulary_entry(one) | self.new_tokens(one) for one in encodings
            },
            "columns": {},
        }

    def entities(self) -> dict[str, int]:
        used = {one.entity: one.split for one in self.kept}
        unknown = used.keys() - self.by_entity.keys()
        return {
            "rows_of_common": len(self.common_lines),
            "repeated": len(self.common_lines) - len(self.by_entity),
            "in_rows": len(used),
            "unknown": len(unknown),
            "rows_of_unknown": sum(one.entity in unknown for one in self.kept),
            "train": sum(split == "train" for split in used.values()),
            "valid": sum(split == "valid" for split in used.values()),
        }

    def split(self, samples: list[Sample], encodings: list[Encoding]) -> dict[str, Any]:
        rows = [self.row(one, []) for one in samples]
        return {
            "rows": len(rows),
            **{name: sum(row[name] for row in rows) for name in LABELS},
            "funnel_anomalies": sum(row["y_cvr"] > row["y_ctr"] for row in rows),
            "features": {one.feature.name: feature_entry(one, samples) for one in encodings},
        }


LABELS = ("y_ctr", "y_cvr", "y_ctcvr", "click_mask")
COUNTED = (
    *("read", "no_id", "no_value", "bad_number", "not_utf8"),
    *("unmapped", "not_finite", "wrong_count"),
)


def feature_entry(encoding: Encoding, samples: list[Sample]) -> dict[str, Any]:
    """A feature's part of a split in stats.json; `value_kept` not rounded."""
    feature = encoding.feature
    before = [largest(one.tokens(feature.source)) for one in samples]
    written = [encoding.cells(tokens) for tokens in before]
    kinds = Counter(kind for _, _, some in written for kind in some)
    multi = feature.max_len is not None
    total = math.fsum(abs(value) for tokens in before for value in tokens.values())
    kept = math.fsum(abs(value) for _, values, some in written for value in values if some)
    return {
        "missing": sum(not tokens for tokens in before),
        "tokens": kinds.total(),
        "distinct_before": sum(map(len, before)) if multi else None,
        "cut_rows": sum(
            len(some) < len(tokens) for tokens, (_, _, some) in zip(before, written, strict=True)
        ),
        "oov": kinds["oov"],
        "tail": kinds["tail"],
        "lengths": lengths_entry(sorted(map(len, before))) if multi else None,
        "value_kept": kept / total if multi and feature.use_value and total else None,
    }


def lengths_entry(lengths: list[int]) -> dict[str, Any] | None:
    """Numbers of tokens per row, sorted, as a few figures; a share of n rows is never past them."""
    if not lengths:
        return None
    reached: Callable[[int], int] = lambda share: lengths[-(-len(lengths) * share // 100) - 1]  # noqa: E731
    return {
        "min": lengths[0],
        "mean": round(sum(lengths) / len(lengths), 4),
        "p50": reached(50),
        "p90": reached(90),
        "p99": reached(99),
        "max": lengths[-1],
    }


def vocabulary_entry(encoding: Encoding) -> dict[str, int]:
    """A feature's part of stats.json's `vocab`."""
    counts = list(encoding.ranks.counts.values())
    size = 0 if encoding.feature.encoding == "hash" else encoding.feature.vocab_num_tokens or 0
    return {
        "distinct": len(counts),
        "kept": len(counts[:size]),
        "occurrences": sum(counts),
        "occurrences_kept": sum(counts[:size]),
    }
