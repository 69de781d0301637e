"""A processed folder that is right in everything, written without the build."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from ingot.converters.recsys.ctr import contract, featuremap

FEATURES = """\
f0_1 vocab 5 - - no
f0_2 vocab 4 - - yes
f0_3 hash - 16 - no
f0_4 hybrid 3 8 - yes
f1_5 vocab 6 - 4 yes
f1_6 hash - 32 3 no
f1_7 hybrid 4 8 5 yes
"""
# Tokens of each feature's vocabulary: fewer than f0_1 has ids for, more than the others have.
SIZES = {"f0_1": 3, "f0_2": 6, "f0_3": 9, "f0_4": 7, "f1_5": 9, "f1_6": 12, "f1_7": 9}
TRAIN, VALID = "train/part-00000.parquet", "valid/part-00000.parquet"
ROWS = 60


def token_hash(feature: featuremap.Feature, token: str) -> int:
    text = f"17:{feature.src}:{feature.field}:{token}".encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest, "big") % (feature.hash_bucket or 1)


def token_id(feature: featuremap.Feature, rank: int, token: str, tail_ids: str) -> int:
    size = feature.vocab_num_tokens or 0
    if rank < size:
        return 3 + rank
    if feature.encoding == "vocab":
        return 2
    low = feature.encoding == "hash" or tail_ids == "contract"
    return (2 if low else 3 + size) + token_hash(feature, token)


def featuremap_document(choices: dict[str, str]) -> dict[str, Any]:
    features = []
    for line in FEATURES.splitlines():
        name, encoding, *sizes, use_value = line.split()
        size, bucket, longest = (None if one == "-" else int(one) for one in sizes)
        document = {"name": name, "src": int(name[1]), "field": name[3:], "encoding": encoding}
        document |= {"vocab_num_tokens": size, "hash_bucket": bucket, "max_len": longest}
        features.append({**document, "use_value": use_value == "yes"})
    return {"split_seed": 7, "train_ratio": 0.5, **choices, "features": features}


def write_vocabularies(root: Path, fmap: featuremap.FeatureMap) -> dict[str, list[int]]:
    """Writes vocab/ by hand; the ids of every feature."""
    (root / "vocab").mkdir()
    ids = {}
    for one in fmap.features:
        tokens = sorted(f"{chr(97 + i % 5)}é{i}" for i in range(SIZES[one.name]))
        counts = [100 - 3 * (i // 2) for i in range(len(tokens))]  # ties in twos
        ids[one.name] = [token_id(one, i, t, fmap.tail_ids) for i, t in enumerate(tokens)]
        table = pa.table(
            {"token": tokens, "count": pa.array(counts, pa.int64()), "id": ids[one.name]}
        )
        pq.write_table(table, root / f"vocab/{one.name}.parquet")
    return ids


def feature_cells(one: featuremap.Feature, ids: list[int], at: int) -> dict[str, Any]:
    """The cells of a feature in row `at`: some missing, lists of every length."""
    missing = at % 7 == 0
    if not one.is_multi_hot:
        cell = 1 if missing else ids[at % len(ids)]
        value = 1.0 if missing else 0.5 * (at % 4)
    else:
        count = at % ((one.max_len or 0) + 1)
        own = list(dict.fromkeys(ids))
        cell = [own[(at + k) % len(own)] for k in range(count)] or [1]
        value = [0.25 * k - 1 for k in range(count)] or [1.0]
    cells = {f"{one.name}_idx": cell}
    return cells | {f"{one.name}_val": value} if one.use_value else cells


def split_of(entity: str) -> str:
    return "train" if xxhash.xxh64_intdigest(f"7:{entity}".encode()) / 2**64 < 0.5 else "valid"


def labels(at: int, click_mask: str, funnel: str) -> dict[str, float]:
    click, bought = float(at % 3 == 0), float(at % 5 == 0)
    if funnel == "coerce":
        bought *= click
    mask = 1.0 if click_mask == "exposed" else click
    return {"y_ctr": click, "y_cvr": bought, "y_ctcvr": click * bought, "click_mask": mask}


def make(root: Path, choices: dict[str, str] | None = None) -> Path:
    """A folder that is right in everything, written without the build."""
    fmap = featuremap.parse(featuremap.dump(featuremap_document(choices or {})), "map")
    root.mkdir()
    (root / "featuremap.yaml").write_text(fmap.text, encoding="utf-8")
    ids = write_vocabularies(root, fmap)
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "valid": []}
    dropped = 0
    for at in range(ROWS):
        entity = f"用户{at % 11}"
        row = {**labels(at, fmap.click_mask, fmap.funnel), "row_id": at, "entity_id": entity}
        for one in fmap.features:
            row |= feature_cells(one, ids[one.name], at)
        if fmap.funnel == "drop" and row["y_cvr"] > row["y_ctr"]:
            dropped += 1
        else:
            rows[split_of(entity)].append(row)
    for split, some in rows.items():
        (root / split).mkdir()
        table = pa.Table.from_pylist(some, schema=contract.processed_schema(fmap))
        pq.write_table(table, root / f"{split}/part-00000.parquet", row_group_size=8)
    (root / "stats.json").write_text(json.dumps(stats(root, fmap, rows, dropped)), "utf-8")
    (root / "rejects.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    list_files(root)
    return root


def stats(
    root: Path, fmap: featuremap.FeatureMap, rows: dict[str, list[dict[str, Any]]], dropped: int
) -> dict[str, Any]:
    counts = {split: len(some) for split, some in rows.items()}
    read = sum(counts.values()) + dropped + 2
    return {
        "rows": {"read": read, **counts, "rejected": 2, "dropped": dropped},
        "rejects": {"label": 1, "columns": 1},
        "entities": {split: len({r["entity_id"] for r in some}) for split, some in rows.items()},
        "splits": {split: split_stats(fmap, some) for split, some in rows.items()},
        "vocab": {one.name: vocabulary_stats(root, one) for one in fmap.features},
    }


def split_stats(fmap: featuremap.FeatureMap, rows: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {name: int(sum(row[name] for row in rows)) for name in contract.LABELS}
    odd = sum(row["y_cvr"] > row["y_ctr"] for row in rows)
    features = {}
    for one in fmap.features:
        cells = [row[f"{one.name}_idx"] for row in rows]
        ids = [i for cell in cells for i in (cell if isinstance(cell, list) else [cell])]
        start = 3 + (one.vocab_num_tokens or 0)
        hybrid = one.encoding == "hybrid"
        features[one.name] = {
            "missing": ids.count(1),
            "tokens": len(ids) - ids.count(1),
            "oov": ids.count(2) if one.encoding == "vocab" else 0,
            "tail": sum(i >= start for i in ids) if hybrid else 0,
        }
    return {"rows": len(rows), **sums, "funnel_anomalies": odd, "features": features}


def vocabulary_stats(root: Path, one: featuremap.Feature) -> dict[str, int]:
    counts = pq.read_table(root / f"vocab/{one.name}.parquet")["count"].to_pylist()
    kept = min(len(counts), one.vocab_num_tokens or 0)
    return {
        "distinct": len(counts),
        "kept": kept,
        "occurrences": sum(counts),
        "occurrences_kept": sum(counts[:kept]),
    }


def list_files(root: Path) -> None:
    """Writes the manifest, as the last step of a build does."""
    files = [
        {
            "path": path.relative_to(root).as_posix(),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", "run.json")
    ]
    document = {"versions": {"ingot": "0"}, "vocab_sha256": None, "files": files}
    (root / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
