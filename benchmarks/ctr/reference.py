"""The CTR contract in plain Python, row by row, to compare `ingot ctr build` with.

    python benchmarks/ctr/reference.py SKELETON COMMON FEATUREMAP OUT
    python benchmarks/ctr/reference.py SKELETON COMMON --join

Writes `OUT/train.parquet` and `OUT/valid.parquet`. It is written from the rules alone and shares
with ingot the featuremap's reader and the columns, nothing that computes. It is no straw man: an
entity's features are parsed, counted, selected and encoded once, a token is hashed once. Everything
is held in memory, and rows with a purchase and no click are kept.

`--join` does what public pipelines for this set do: `re.split` and `dict(zip(...))` on every line,
the two dictionaries put together. It keeps one token of a field, has no vocabulary and writes
nothing: less work than the above, for scale.
"""

import argparse
import hashlib
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from ingot.converters.recsys.ctr.contract import processed_schema
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap, load

Tokens = dict[str, dict[str, float]]  # by field, then by token: the largest value
Cells = dict[str, Any]
UNRANKED = 10**9


@dataclass(kw_only=True)
class Row:
    """A line of the skeleton."""

    number: int
    click: int
    purchase: int
    entity: str
    text: str
    train: bool


@dataclass(kw_only=True)
class Entity:
    """A line of the common file; `rows` of it are train."""

    text: str
    rows: int = 0


@dataclass(kw_only=True)
class Ranks:
    """The vocabularies: a token's rank by (src, field), and the hashes that were needed."""

    featuremap: FeatureMap
    of: dict[tuple[int, str], dict[str, int]]
    hashes: dict[tuple[str, str], int] = field(default_factory=dict)


def raw_tokens(text: str) -> Iterator[tuple[str, str, float]]:
    """Field, token and value of everything that is well-formed."""
    for piece in text.split("\x01"):
        name, first, rest = piece.partition("\x02")
        token, second, number = rest.partition("\x03")
        try:
            value = float(np.float32(float(number)))
        except ValueError:
            continue
        if first and second:
            yield name, token, value if math.isfinite(value) else 0.0


def parsed(text: str) -> Tokens:
    found: Tokens = defaultdict(dict)
    for name, token, value in raw_tokens(text):
        known = found[name]
        known[token] = max(value, known.get(token, -math.inf))
    return found


def is_train(entity: str, featuremap: FeatureMap) -> bool:
    digest = xxhash.xxh64_intdigest(f"{featuremap.split_seed}:{entity}".encode())
    return digest / 2**64 < featuremap.train_ratio


def read(
    skeleton: Path, common: Path, featuremap: FeatureMap
) -> tuple[list[Row], dict[str, Entity]]:
    entities: dict[str, Entity] = {}
    with common.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            index, _, text = line.removesuffix("\n").split(",", 2)
            entities[index] = Entity(text=text)
    rows = []
    with skeleton.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines):
            _, click, purchase, index, _, text = line.removesuffix("\n").split(",", 5)
            train = is_train(index, featuremap)
            given = {"click": int(click), "purchase": int(purchase), "entity": index}
            rows.append(Row(number=number, text=text, train=train, **given))  # type: ignore[arg-type]
            if index in entities:
                entities[index].rows += train
    return rows, entities


def ranks(rows: list[Row], entities: dict[str, Entity], featuremap: FeatureMap) -> Ranks:
    """Every token by (-occurrences in train rows, token)."""
    counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    texts = [(0, row.text, 1) for row in rows if row.train]
    texts += [(1, entity.text, entity.rows) for entity in entities.values() if entity.rows]
    for src, text, times in texts:
        for name, token, _ in raw_tokens(text):
            counts[src, name][token] += times
    made = {}
    for source, counter in counts.items():
        ordered = sorted(counter.items(), key=lambda one: (-one[1], one[0]))
        made[source] = {token: rank for rank, (token, _) in enumerate(ordered)}
    return Ranks(featuremap=featuremap, of=made)


def hashed(feature: Feature, token: str, known: Ranks) -> int:
    key = feature.name, token
    if key not in known.hashes:
        text = f"{known.featuremap.hash_seed}:{feature.src}:{feature.field}:{token}"
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        known.hashes[key] = int.from_bytes(digest, "big") % (feature.hash_bucket or 1)
    return known.hashes[key]


def encoded(feature: Feature, token: str, known: Ranks) -> int:
    if feature.encoding == "hash":
        return 2 + hashed(feature, token, known)
    rank = known.of.get(feature.source, {}).get(token, UNRANKED)
    if rank < (feature.vocab_num_tokens or 0):
        return 3 + rank
    if feature.encoding == "vocab":
        return 2
    first = (feature.vocab_num_tokens or 0) + 3
    return (2 if known.featuremap.tail_ids == "contract" else first) + hashed(feature, token, known)


def selected(feature: Feature, tokens: dict[str, float], rank: dict[str, int]) -> list[str]:
    """The tokens of a list, ordered and cut; the one of a single value."""
    frequent = sorted(tokens, key=lambda token: (rank.get(token, UNRANKED), token))
    if feature.max_len is None:
        return sorted(frequent, key=lambda token: -tokens[token])[:1]
    most = feature.max_len
    if not tokens or not by_value(feature, list(tokens.values())):
        return frequent[:most]
    heavy = sorted(tokens, key=lambda token: (-tokens[token], token))
    first = heavy[: math.ceil(most * feature.token_select.value_fraction)]
    taken = set(first)
    return first + [token for token in frequent if token not in taken][: most - len(first)]


def by_value(feature: Feature, values: list[float]) -> bool:
    select = feature.token_select
    if select.strategy != "auto":
        return select.strategy == "auto_mix"
    if not feature.use_value:
        return False
    other = sum(value != 1.0 for value in values) / len(values)
    return other >= select.non_one_ratio_gte or float(np.std(values)) >= select.value_std_gte


def cells(features: tuple[Feature, ...], text: str, known: Ranks) -> Cells:
    """The columns of these features for one row."""
    found, made = parsed(text), Cells()
    for feature in features:
        tokens, rank = found.get(feature.field, {}), known.of.get(feature.source, {})
        chosen = selected(feature, tokens, rank)
        ids = [encoded(feature, token, known) for token in chosen] or [1]
        values = [tokens[token] for token in chosen] or [1.0]
        made[f"{feature.name}_idx"] = ids if feature.is_multi_hot else ids[0]
        if feature.use_value:
            made[f"{feature.name}_val"] = values if feature.is_multi_hot else values[0]
    return made


def labels(row: Row, featuremap: FeatureMap) -> Cells:
    seen = row.click if featuremap.click_mask == "clicked" else 1
    made: Cells = {"y_ctr": row.click, "y_cvr": row.purchase, "y_ctcvr": row.click * row.purchase}
    return made | {"click_mask": seen, "row_id": row.number, "entity_id": row.entity}


@np.errstate(over="ignore")  # 1e39 is infinite, and then 0.0
def build(skeleton: Path, common: Path, featuremap: FeatureMap, out: Path) -> None:
    """Both splits, in memory."""
    rows, entities = read(skeleton, common, featuremap)
    known, schema = ranks(rows, entities, featuremap), processed_schema(featuremap)
    own, others = featuremap.of_src(0), featuremap.of_src(1)
    of_entities = {index: cells(others, entity.text, known) for index, entity in entities.items()}
    nothing = cells(others, "", known)
    out.mkdir(parents=True, exist_ok=True)
    for name, train in (("train", True), ("valid", False)):
        with pq.ParquetWriter(out / f"{name}.parquet", schema) as writer:
            part = [row for row in rows if row.train == train]
            for start in range(0, len(part), 10_000):
                made = [
                    labels(row, featuremap)
                    | cells(own, row.text, known)
                    | of_entities.get(row.entity, nothing)
                    for row in part[start : start + 10_000]
                ]
                writer.write_table(pa.Table.from_pylist(made, schema))


def join(skeleton: Path, common: Path) -> int:
    """Rows with one token of each field, as public pipelines make them; their number."""
    known: dict[str, dict[str, str]] = {}
    with common.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            index, _, text = line.rstrip("\n").split(",")
            pieces = re.split("[\x01\x02\x03]", text)
            known[index] = dict(zip(pieces[0::3], pieces[1::3], strict=True))
    rows = 0
    with skeleton.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            _, click, purchase, index, _, text = line.rstrip("\n").split(",")
            pieces = re.split("[\x01\x02\x03]", text)
            made = dict(zip(pieces[0::3], pieces[1::3], strict=True))
            made.update(known[index], click=click, purchase=purchase)
            rows += 1
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("skeleton", type=Path)
    parser.add_argument("common", type=Path)
    parser.add_argument("featuremap", nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--join", action="store_true")
    given = parser.parse_args()
    if given.join:
        print(f"{join(given.skeleton, given.common):,} rows")
    elif given.out is None:
        sys.exit("give FEATUREMAP and OUT, or --join")
    else:
        build(given.skeleton, given.common, load(given.featuremap), given.out)


if __name__ == "__main__":
    main()
