"""Ranks, ids and hashes of tokens, the split of entities, and vocabularies that are used again."""

import json
from collections import Counter
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import SourceError
from ingot.converters.output.identity import CommittedResult
from ingot.converters.recsys.ctr.contract import (
    TRAIN,
    VALID,
    entity_hashes,
    splits_of,
    token_hashes,
)
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap
from ingot.converters.recsys.ctr.featuremap import load as load_featuremap
from ingot.converters.recsys.ctr.preprocess.vocabulary import (
    SCHEMA,
    Interner,
    fit_vocabularies,
    ids_of,
    load_vocabularies,
    save_vocabulary,
    vocabulary_table,
)

TEXTS = st.dictionaries(st.text(max_size=3), st.integers(0, 3), min_size=1, max_size=20)
VOCAB = Feature(name="f0_1", src=0, field="1", encoding="vocab", vocab_num_tokens=3)
HASH = Feature(name="f0_1", src=0, field="1", encoding="hash", hash_bucket=7)
HYBRID = replace(VOCAB, encoding="hybrid", hash_bucket=5)


def interned(texts: list[str], interner: Interner, field: int = 0) -> None:
    interner.add_array(pa.array([one.encode() for one in texts], pa.large_binary()), field)


def ranks(counts: dict[str, int]) -> list[str]:
    """Tokens of train rows by (-occurrences, text)."""
    seen = {text: count for text, count in counts.items() if count}
    return sorted(seen, key=lambda text: (-seen[text], text))


@given(TEXTS, TEXTS)
def test_ranks(first: dict[str, int], second: dict[str, int]) -> None:
    interner = Interner()
    interned(list(second), interner, 1)
    interned(list(first), interner, 0)
    counts = np.array([*second.values(), *first.values()], np.int64)
    places, vocabularies = fit_vocabularies(interner, counts, 2)
    for given_counts, vocabulary in zip((first, second), vocabularies, strict=True):
        texts = [one.decode() for one in vocabulary.texts.to_pylist()]
        assert texts == sorted(given_counts)
        assert [texts[place] for place in vocabulary.ranked.tolist()] == ranks(given_counts)
        unseen = sorted(text for text, count in given_counts.items() if not count)
        by_priority = [texts[at] for at in np.argsort(vocabulary.priorities).tolist()]
        assert by_priority == ranks(given_counts) + unseen
    sorted_texts = [vocabularies[1].texts, vocabularies[0].texts]
    spelled = [
        sorted_texts[code >= len(second)][place].as_py().decode()
        for code, place in enumerate(places.tolist())
    ]
    assert spelled == [*second, *first]


@given(TEXTS, TEXTS)
def test_saved_ranks_take_the_place_of_counts(old: dict[str, int], new: dict[str, int]) -> None:
    known = ranks(old)
    columns = [known, [old[text] for text in known], list(range(len(known)))]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
    interner = Interner()
    interned(list(new), interner)
    _, (vocabulary,) = fit_vocabularies(
        interner, np.array(list(new.values()), np.int64), 1, [table]
    )
    texts = [one.decode() for one in vocabulary.texts.to_pylist()]
    there = [text for text in known if text in new]
    assert [texts[place] for place in vocabulary.ranked.tolist()] == there
    assert [vocabulary.ranks[texts.index(text)] for text in there] == [
        known.index(t) for t in there
    ]
    assert vocabulary.counts.tolist() == [old.get(text, 0) for text in texts]


@pytest.mark.parametrize(
    ("feature", "tail_ids", "expected"),
    [
        (VOCAB, "disjoint", [3, 4, 5, 2, 2]),
        (HASH, "disjoint", [2 + h for h in (0, 1, 2, 3, 4)]),
        (HYBRID, "disjoint", [3, 4, 5, 6, 6]),
        (HYBRID, "contract", [3, 4, 5, 2, 2]),
    ],
)
def test_ids(feature: Feature, tail_ids: str, expected: list[int]) -> None:
    featuremap = FeatureMap(features=(feature,), tail_ids=tail_ids)
    texts = [b"a", b"b", b"c", b"d", b"e"]
    hashed = [plain_hash(17, feature, text) for text in texts]
    if feature is HASH:
        expected = [2 + one for one in hashed]
    elif feature is HYBRID:
        expected = expected[:3] + [
            start + h for start, h in zip(expected[3:], hashed[3:], strict=True)
        ]
    array = pa.array(texts, pa.large_binary())
    assert ids_of(feature, featuremap, array, np.arange(5, dtype=np.int64)).tolist() == expected


def plain_hash(seed: int, feature: Feature, token: bytes) -> int:
    start = f"{seed}:{feature.src}:{feature.field}:".encode()
    digest = blake2b(start + token, digest_size=16).digest()
    return int.from_bytes(digest, "big") % (feature.hash_bucket or 1)


@given(
    st.lists(st.text(max_size=200), max_size=8),
    st.sampled_from((1, 2, 3, 4096, 8_388_608, 2_000_000_000, 1_999_999_973)),
    st.sampled_from((17, 0, 2**63 - 1)),
    st.text(min_size=1, max_size=150),
    st.integers(0, 1),
)
def test_hashes(tokens: list[str], bucket: int, seed: int, field: str, src: int) -> None:
    feature = replace(HASH, src=src, field=field, hash_bucket=bucket)
    encoded = [one.encode() for one in tokens]
    expected = [plain_hash(seed, feature, one) for one in encoded]
    assert hashes(encoded, feature, seed) == expected


def test_hashes_of_tokens_of_every_length() -> None:
    tokens = [b"x" * length for length in range(400)]
    assert hashes(tokens, HASH, 17) == [plain_hash(17, HASH, one) for one in tokens]


@pytest.mark.more
def test_hashes_of_the_golden_set(golden: Path, golden_build: CommittedResult) -> None:
    """Ids of hash features, as the public project wrote them, lead back to tokens."""
    featuremap = load_featuremap(golden / "featuremap_small.yaml")
    document = json.loads((golden / "upstream_fullrank_vocab.json").read_bytes())["fields"]
    for feature in (one for one in featuremap.features if one.encoding == "hash"):
        table = pq.read_table(golden / "upstream_fullrank_train.parquet")
        column = table[f"{feature.name}_idx"].combine_chunks()
        theirs = set((column.flatten() if feature.is_multi_hot else column).to_pylist()) - {1}
        tokens = [one.encode() for one in document[feature.name]["freq_rank"]]
        assert theirs <= {2 + one for one in hashes(tokens, feature, 17)}


def hashes(tokens: list[bytes], feature: Feature, seed: int) -> list[int]:
    found: list[int] = token_hashes(pa.array(tokens, pa.large_binary()), feature, seed).tolist()
    return found


def test_split_is_the_public_projects(golden: Path) -> None:
    seen = Counter[int]()
    for split, wanted in (("train", TRAIN), ("valid", VALID)):
        table = pq.read_table(golden / f"upstream_fullrank_{split}.parquet")
        for entity in set(table["entity_id"].to_pylist()):
            hashes = entity_hashes([entity.encode()], 20260121)
            assert splits_of(hashes, 0.95).tolist() == [wanted]
            seen[wanted] += 1
    assert seen == {TRAIN: 130, VALID: 20}


def test_split_by_share() -> None:
    entities = [b"%d" % one for one in range(20_000)]
    one, two = (entity_hashes(entities, seed) for seed in (1, 2))
    assert splits_of(one, 1.0).tolist() == [TRAIN] * 20_000
    assert splits_of(one, 0.0).tolist() == [VALID] * 20_000
    shares = [np.count_nonzero(splits_of(some, 0.7) == TRAIN) / 20_000 for some in (one, two)]
    assert shares == pytest.approx([0.7, 0.7], abs=0.02)
    first, other = splits_of(one, 0.3), splits_of(one, 0.7)
    assert not np.any((first == TRAIN) & (other == VALID)), "a larger share keeps what was train"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A vocabulary of four tokens, of which three have ids."""
    interner = Interner()
    interned(["b", "a", "d", "c", "unseen"], interner)
    _, (vocabulary,) = fit_vocabularies(interner, np.array([5, 5, 2, 9, 0], np.int64), 1)
    ids = ids_of(VOCAB, FeatureMap(features=(VOCAB,)), vocabulary.texts, vocabulary.ranks)
    save_vocabulary(tmp_path / "f0_1.parquet", vocabulary_table(vocabulary, ids))
    return tmp_path


def test_what_is_saved(saved: Path) -> None:
    table = load_vocabularies(saved, FeatureMap(features=(VOCAB,)))["f0_1"]
    assert table.schema.equals(SCHEMA)
    assert table.to_pydict() == {
        "token": ["c", "a", "b", "d"],
        "count": [9, 5, 5, 2],
        "id": [3, 4, 5, 2],
    }


def test_of_a_built_folder(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / "vocab").symlink_to(saved)
    assert load_vocabularies(folder, FeatureMap(features=(VOCAB,)))["f0_1"].num_rows == 4


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        (replace(VOCAB, vocab_num_tokens=4), "token 'd' has id 2, this featuremap gives 6"),
        (replace(VOCAB, vocab_num_tokens=2), "token 'b' has id 5, this featuremap gives 2"),
        (HYBRID, "token 'd' has id 2, this featuremap gives"),
        (HASH, "token 'c' has id 3, this featuremap gives"),
        (replace(VOCAB, name="f0_2"), "f0_2.parquet: cannot be read as a vocabulary"),
    ],
)
def test_vocabularies_of_another_featuremap(saved: Path, feature: Feature, said: str) -> None:
    with pytest.raises(SourceError) as raised:
        load_vocabularies(saved, FeatureMap(features=(feature,)))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"no parquet", b"PAR1" * 9],
)
def test_no_vocabulary(saved: Path, content: bytes) -> None:
    (saved / "f0_1.parquet").write_bytes(content)
    with pytest.raises(SourceError, match="cannot be read as a vocabulary"):
        load_vocabularies(saved, FeatureMap(features=(VOCAB,)))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"token": ["a"], "id": [3]}),
        pa.table({"token": ["a"], "count": ["x"], "id": [3]}),
        pa.table({"token": ["a"], "count": [1], "id": [3]}),
    ],
)
def test_another_table(saved: Path, table: pa.Table) -> None:
    pq.write_table(table, saved / "f0_1.parquet")
    with pytest.raises(SourceError, match="is not a vocabulary"):
        load_vocabularies(saved, FeatureMap(features=(VOCAB,)))


def test_a_token_twice(saved: Path) -> None:
    path = saved / "f0_1.parquet"
    table = pq.read_table(path)
    columns = [pa.array(["c", "a", "c", "d"]), *table.columns[1:]]
    pq.write_table(pa.table(columns, schema=SCHEMA), path)
    with pytest.raises(SourceError, match=r"f0_1\.parquet: .*twice"):
        load_vocabularies(saved, FeatureMap(features=(VOCAB,)))


def test_two_features_of_a_field_with_other_tokens(saved: Path) -> None:
    table = pq.read_table(saved / "f0_1.parquet")
    pq.write_table(table.slice(0, 3), saved / "f0_2.parquet")
    featuremap = FeatureMap(features=(VOCAB, replace(VOCAB, name="f0_2")))
    with pytest.raises(SourceError, match="other tokens than another feature of field '1'"):
        load_vocabularies(saved, featuremap)
