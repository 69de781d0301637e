"""Featuremaps: every key, every contradiction, the traps of YAML, the bundled one."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import FeaturemapError
from ingot.converters.json_yaml import schema
from ingot.converters.recsys.ctr.featuremap import (
    BUNDLED,
    Feature,
    FeatureMap,
    Table,
    TokenSelect,
    dump,
    load,
    parse,
    to_document,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "ctr" / "featuremap_small.yaml"
ONE = {"name": "f0_a", "field": "a", "encoding": "vocab", "vocab_num_tokens": 5}
TABLE = {"entity_id": "u", "y_ctr": "c", "y_cvr": None}


def problems(document: Any) -> list[tuple[str, str]]:
    """Where a featuremap is wrong, and why."""
    text = document if isinstance(document, str) else yaml.safe_dump(document)
    with pytest.raises(FeaturemapError) as raised:
        parse(text, "here")
    assert raised.value.exit_code == 2
    assert str(raised.value).startswith("here: ")
    return [(one.pointer, one.code) for one in raised.value.problems]


def feature(**changes: Any) -> dict[str, Any]:
    merged = {**ONE, **changes}
    return {key: value for key, value in merged.items() if value != "gone"}


# The contract's table 2.1 as it stands there.
TABLE_2_1 = """
| `f0_508` | 否 | 是 | vocab | — | 单值，类别型，带权重 |
| `f0_301` | 否 | 否 | vocab | — | 单值 |
| `f0_205` | 否 | 否 | hash | — | 单值，哈希 |
| `f1_121` | 否 | 否 | vocab | — | 单值 |
| `f1_129` | 否 | 否 | vocab | — | 单值 |
| `f1_110_14` | 是 | 是 | hash | 60 | 多值，权重，auto_mix 截断 |
| `f0_210` | 是 | 否 | hybrid(topn+hash) | 20 | 多值，无 value |
| `f0_206` | 否 | 否 | vocab | — | 单值 |
| `f1_127` | 否 | 否 | vocab | — | 单值 |
| `f1_127_14` | 是 | 是 | hash | 60 | 多值，权重 |
| `f0_509` | 否 | 是 | hash | — | 单值，带权重 |
| `f1_124` | 否 | 否 | vocab | — | 单值 |
| `f1_150_14` | 是 | 是 | hybrid(topn+hash) | 80 | 多值，权重 |
| `f1_109_14` | 是 | 是 | vocab | 80 | 多值，权重 |
| `f0_216` | 否 | 否 | hybrid(topn+hash) | — | 单值 |
| `f0_207` | 否 | 否 | hash | — | 单值 |
| `f0_702` | 否 | 是 | hybrid(topn+hash) | — | 单值，带权重 |
| `f1_126` | 否 | 否 | vocab | — | 单值 |
| `f1_101` | 否 | 否 | hash | — | 单值 |
| `f1_125` | 否 | 否 | vocab | — | 单值 |
| `f1_128` | 否 | 否 | vocab | — | 单值 |
| `f1_122` | 否 | 否 | vocab | — | 单值 |
| `f0_853` | 是 | 是 | hybrid(topn+hash) | 10 | 多值，权重 |
"""
# Tables as the public featuremap has them: vocabulary / bucket.
SIZES = """508 20000/- 301 5/- 205 -/8388608 121 101/- 129 6/- 110_14 -/8388608 210 100000/8192
206 20000/- 127 5/- 127_14 -/4194304 509 -/4194304 124 4/- 150_14 100000/262144 109_14 20000/-
216 200000/524288 207 -/4194304 702 200000/32768 126 5/- 101 -/4194304 125 9/- 128 4/- 122 17/-
853 100000/8192"""


def test_the_bundled_featuremap_is_the_contracts_table():
    rows = [
        [cell.strip().strip("`") for cell in line.split("|")[1:7]]
        for line in TABLE_2_1.strip().splitlines()
    ]
    expected = [
        (name, many == "是", valued == "是", encoding.split("(")[0], length)
        for name, many, valued, encoding, length, _ in rows
    ]
    got = [
        (one.name, one.is_multi_hot, one.use_value, one.encoding, str(one.max_len or "—"))
        for one in load("aliccp").features
    ]
    assert got == expected
    assert len(got) == 23


def test_the_bundled_sizes_seeds_and_choices():
    featuremap = load("aliccp")
    words = SIZES.split()
    sizes = dict(zip(words[::2], words[1::2], strict=True))
    assert {one.field: f"{one.vocab_num_tokens or '-'}/{one.hash_bucket or '-'}" for one in
            featuremap.features} == sizes  # fmt: skip
    assert all(one.name == f"f{one.src}_{one.field}" for one in featuremap.features)
    assert (featuremap.split_seed, featuremap.train_ratio, featuremap.hash_seed) == (
        20260121,
        0.95,
        17,
    )
    chosen = featuremap.click_mask, featuremap.tail_ids, featuremap.funnel
    assert chosen == ("clicked", "disjoint", "keep")
    assert featuremap.table is None
    assert featuremap == FeatureMap(features=featuremap.features)  # the defaults are the same
    assert all(one.token_select == TokenSelect() for one in featuremap.features)


def test_num_embeddings():
    by_field = {one.field: one for one in load("aliccp").features}
    assert by_field["508"].num_embeddings() == 20_003
    assert by_field["205"].num_embeddings() == 8_388_610
    assert by_field["210"].num_embeddings() == 108_195  # 100,003 + 8,192
    assert by_field["210"].num_embeddings("contract") == 100_003
    few = Feature(
        name="f0_a", src=0, field="a", encoding="hybrid", vocab_num_tokens=3, hash_bucket=9
    )
    assert (few.num_embeddings(), few.num_embeddings("contract")) == (15, 11)


def test_the_featuremap_of_the_golden_set_is_read():
    small = load(GOLDEN)
    assert [one.name for one in small.features] == [one.name for one in load("aliccp").features]
    assert small.text == GOLDEN.read_text()
    assert len(small.sources) == 23
    assert len(small.of_src(0)) + len(small.of_src(1)) == 23


def test_what_can_be_left_out():
    assert parse(yaml.safe_dump({"features": [ONE]}), "here") == FeatureMap(
        features=(Feature(name="f0_a", src=0, field="a", encoding="vocab", vocab_num_tokens=5),)
    )


def test_every_key_of_the_schema_is_read():
    select = {
        "strategy": "auto_mix",
        "non_one_ratio_gte": 0.25,
        "value_std_gte": 2.0,
        "value_fraction": 0.5,
    }
    table = {
        "entity_id": "u",
        "y_ctr": "c",
        "y_cvr": "b",
        "sample_id": "s",
        "token_separator": "|",
        "value_separator": "=",
        "missing": ["", "NULL"],
    }
    one = {
        "name": "f0_a",
        "src": 0,
        "field": "a",
        "column": "A",
        "encoding": "hybrid",
        "vocab_num_tokens": 7,
        "hash_bucket": 9,
        "max_len": 3,
        "is_multi_hot": True,
        "use_value": True,
        "token_separator": ";",
        "value_separator": ":",
        "token_select": {"value_fraction": 0.25},
    }
    document = {
        "featuremap_version": 1,
        "split_seed": 1,
        "train_ratio": 0.5,
        "hash_seed": 2,
        "vocab_first_id": 3,
        "hash_first_id": 2,
        "click_mask": "exposed",
        "tail_ids": "contract",
        "funnel": "drop",
        "token_select": select,
        "table": table,
        "features": [one],
    }
    shape = schema("featuremap")
    assert document.keys() == shape["properties"].keys()
    assert one.keys() == shape["$defs"]["feature"]["properties"].keys()
    assert select.keys() == shape["$defs"]["token_select"]["properties"].keys()
    assert table.keys() == shape["properties"]["table"]["properties"].keys()
    read = parse(dump(document), "here")
    assert read.table == Table(**{**table, "missing": ("", "NULL")})
    assert read.token_select == TokenSelect(**select)
    (got,) = read.features
    assert got.token_select == TokenSelect(**{**select, "value_fraction": 0.25})
    assert (got.column, got.vocab_num_tokens, got.hash_bucket, got.max_len) == ("A", 7, 9, 3)
    assert (got.token_separator, got.value_separator) == (";", ":")
    assert (got.use_value, got.is_multi_hot, got.source) == (True, True, (0, "a"))
    assert (read.split_seed, read.train_ratio, read.hash_seed) == (1, 0.5, 2)
    assert (read.click_mask, read.tail_ids, read.funnel) == ("exposed", "contract", "drop")


def test_defaults_of_the_schema_are_those_of_the_code():
    shape = schema("featuremap")
    plain = FeatureMap(features=())
    for key, one in shape["properties"].items():
        if "default" in one and hasattr(plain, key):
            assert getattr(plain, key) == one["default"], key
    for key, one in shape["$defs"]["token_select"]["properties"].items():
        assert getattr(TokenSelect(), key) == one["default"], key
    table = Table(entity_id="u", y_ctr="c", y_cvr=None)
    for key, one in shape["properties"]["table"]["properties"].items():
        if "default" in one:
            value = getattr(table, key)
            assert (list(value) if key == "missing" else value) == one["default"], key


WRONG: list[tuple[Any, list[tuple[str, str]]]] = [
    ({}, [("", "schema")]),
    ({"features": []}, [("/features", "schema")]),
    ({"features": [ONE], "seed": 1}, [("", "schema")]),
    ({"features": [ONE], "featuremap_version": 2}, [("/featuremap_version", "schema")]),
    ({"features": [ONE], "vocab_first_id": 2}, [("/vocab_first_id", "schema")]),
    ({"features": [ONE], "hash_first_id": 3}, [("/hash_first_id", "schema")]),
    ({"features": [ONE], "split_seed": -1}, [("/split_seed", "schema")]),
    ({"features": [ONE], "split_seed": 1.0}, [("/split_seed", "schema")]),
    ({"features": [ONE], "hash_seed": 2**63}, [("/hash_seed", "schema")]),
    ({"features": [ONE], "hash_seed": True}, [("/hash_seed", "schema")]),
    ({"features": [ONE], "train_ratio": 1.5}, [("/train_ratio", "schema")]),
    ({"features": [ONE], "train_ratio": float("nan")}, [("/train_ratio", "schema")]),
    ({"features": [ONE], "click_mask": "all"}, [("/click_mask", "schema")]),
    ({"features": [ONE], "tail_ids": "own"}, [("/tail_ids", "schema")]),
    ({"features": [ONE], "funnel": "mend"}, [("/funnel", "schema")]),
    (
        {"features": [ONE], "token_select": {"strategy": "best", "value_std_gte": float("inf")}},
        [("/token_select/strategy", "schema"), ("/token_select/value_std_gte", "schema")],
    ),
    ({"features": [ONE], "table": {"entity_id": "u"}}, [("/table", "schema")] * 2),
    ({"features": [ONE], "table": {**TABLE, "y_ctr": 1}}, [("/table/y_ctr", "schema")]),
    ({"features": [ONE], "table": {**TABLE, "token_separator": ""}},
     [("/table/token_separator", "schema")]),
    ({"features": [feature(name="a")]}, [("/features/0/name", "schema")]),
    ({"features": [feature(name="f0_é")]}, [("/features/0/name", "schema")]),
    ({"features": [feature(name="f0_../a")]}, [("/features/0/name", "schema")]),
    ({"features": [feature(name="f2_a", src=2)]}, [("/features/0/src", "schema")]),
    ({"features": [feature(field="gone")]}, [("/features/0", "schema")]),
    ({"features": [feature(encoding="embedding")]}, [("/features/0/encoding", "schema")]),
    ({"features": [feature(vocab_num_tokens=0)]}, [("/features/0/vocab_num_tokens", "schema")]),
    ({"features": [feature(vocab_num_tokens=5.0)]}, [("/features/0/vocab_num_tokens", "schema")]),
    ({"features": [feature(max_len=0)]}, [("/features/0/max_len", "schema")]),
    ({"features": [feature(pooling="sum")]}, [("/features/0", "schema")]),
    ({"features": [feature(name="f1_a")]}, [("/features/0/name", "contradiction")]),
    ({"features": [feature(src=1)]}, [("/features/0/name", "contradiction")]),
    ({"features": [ONE, feature(field="b")]}, [("/features/1/name", "repeated")]),
    ({"features": [ONE, feature(name="f0_a_idx")]}, [("/features/1/name", "repeated")]),
    ({"features": [ONE, feature(name="f0_a_val")]}, [("/features/1/name", "repeated")]),
    (
        {"features": [feature(vocab_num_tokens="gone")]},
        [("/features/0/vocab_num_tokens", "contradiction")],
    ),
    ({"features": [feature(hash_bucket=3)]}, [("/features/0/hash_bucket", "contradiction")]),
    (
        {"features": [feature(encoding="hash")]},
        [
            ("/features/0/vocab_num_tokens", "contradiction"),
            ("/features/0/hash_bucket", "contradiction"),
        ],
    ),
    (
        {"features": [feature(encoding="hybrid")]},
        [("/features/0/hash_bucket", "contradiction")],
    ),
    ({"features": [feature(is_multi_hot=True)]}, [("/features/0/max_len", "contradiction")]),
    (
        {"features": [feature(is_multi_hot=False, max_len=3)]},
        [("/features/0/max_len", "contradiction")],
    ),
    ({"features": [feature(token_select={})]}, [("/features/0/token_select", "contradiction")]),
    (
        {"features": [feature(name="f1_a", src=1)], "table": TABLE},
        [("/features/0/src", "contradiction")],
    ),
    ({"features": [feature(field="c")], "table": TABLE}, [("/features/0/field", "contradiction")]),
    (
        {"features": [feature(column="b")], "table": {**TABLE, "y_cvr": "b"}},
        [("/features/0/column", "contradiction")],
    ),
    (
        {"features": [ONE, feature(name="f0_b", column="b")], "table": TABLE},
        [("/features/1/column", "contradiction")],
    ),
    ({"features": [ONE], "table": {**TABLE, "y_cvr": "c"}}, [("/table/y_cvr", "contradiction")]),
    ({"features": [ONE], "table": {**TABLE, "y_ctr": "u"}}, [("/table/y_ctr", "contradiction")]),
    (
        {"features": [ONE], "table": {**TABLE, "token_separator": ":"}},
        [("/table/value_separator", "contradiction")],
    ),
    (
        {"features": [feature(token_separator=":", use_value=True, max_len=3)], "table": TABLE},
        [("/features/0/value_separator", "contradiction")],
    ),
    (
        {"features": [feature(token_separator=";")]},
        [("/features/0/token_separator", "contradiction")],
    ),
    (
        {"features": [ONE, feature(name="f0_b", token_separator=";")], "table": TABLE},
        [("/features/1/token_separator", "contradiction")],
    ),
    (
        {"features": [ONE], "table": {**TABLE, "value_separator": ",="}},
        [("/table/value_separator", "contradiction")],
    ),
    (
        {"features": [feature(field="")], "train_ratio": 2, "table": []},
        [("/features/0/field", "schema"), ("/table", "schema"), ("/train_ratio", "schema")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), WRONG, ids=lambda one: str(one)[:60])
def test_every_problem_is_told(document, expected):
    assert problems(document) == expected


def test_the_entity_may_be_a_feature_besides():
    document = {"features": [feature(field="u")], "table": TABLE}
    assert parse(yaml.safe_dump(document), "here").features[0].field == "u"


LINE = "features: [{name: f0_a, field: a, encoding: vocab, vocab_num_tokens: 5}]\n"
TRAPS = {
    "number": (LINE.replace("field: a", "field: 110_14"), "11014 is not of type .*quote it"),
    "time": (LINE.replace("field: a", "field: 12:30"), "750 is not of type 'string' .*quote it"),
    "date": (LINE.replace("field: a", "field: 2020-01-02"), "is not of type 'string'"),
    "no date": (LINE.replace("field: a", "field: 2020-13-02"), "no YAML: month must be"),
    "norway": (LINE.replace("field: a", "field: no"), "False is not of type 'string'"),
    "null": (LINE + "table: {entity_id: u, y_ctr: c, y_cvr: null, missing: [null]}", "quote it"),
    "digits": (LINE + "split_seed: " + "9" * 5000, "no YAML: "),
    "twice": (LINE + "hash_seed: 1\nhash_seed: 2\n", "the key 'hash_seed' occurs twice.*line 3"),
    "twice inside": (LINE.replace("name:", "field: b, name:"), "the key 'field' occurs twice"),
    "alias": ("a: &a [x]\nb: *a\n", "YAML aliases \\(\\*name\\) are not supported"),
    "merge": (LINE + "<<: {train_ratio: 0.5}\n", "YAML merges \\(<<\\) are not supported"),
    "tag": (LINE.replace("field: a", "field: !!str a"), "YAML tags are not supported"),
    "object": ("!!python/object/apply:os.system ['true']", "YAML tags are not supported"),
    "list as key": ("? [a]\n: 1\n", "keys must be texts"),
    "two documents": (LINE + "---\n" + LINE, "expected a single document"),
    "no mapping": ("just text", "expected keys and values, got str"),
    "nothing": ("", "expected keys and values, got NoneType"),
    "control": (LINE + "# \x00", "no YAML: unacceptable character"),
    "half a character": (LINE.replace("field: a", r'field: "\ud800"'), "whole characters"),
    "number of base 60": ("x: " + "1:" * 300_000 + "1\n", "a number is too long"),
    "nested": ("[" * 300_000, "nested too deep"),
    "nested keys": ("{a: " * 75_000, "nested too deep"),
    "number as key": (LINE + "1: 2\n", "1 was unexpected"),
    "unclosed": ("features: [", "no YAML"),
    "tab": ("features:\n\t- a\n", "no YAML"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps_of_yaml(name):
    text, said = TRAPS[name]
    with pytest.raises(FeaturemapError, match=said):
        parse(text, "here")


def test_a_mark_of_the_byte_order_and_comments_are_no_matter():
    assert parse("\ufeff# é\n" + LINE, "here") == parse(LINE, "here")


@pytest.mark.more
def test_a_featuremap_of_300_kb_is_read():
    many = [feature(name=f"f0_{n}", field=str(n), column=f"{n} é" * 60) for n in range(900)]
    text = dump({"features": many})
    assert len(text.encode()) > 300_000
    assert len(parse(text, "here").features) == 900


def test_files_that_cannot_be_read(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_bytes(b"features: \xff\n")
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (5 << 20))
    for name, said in {
        str(wrong): "cannot be read: not UTF-8",
        str(big): "larger than 4 MiB: no featuremap",
        str(tmp_path): "cannot be read: Is a directory",
        str(tmp_path / "none.yaml"): "cannot be read: No such file or directory; there is aliccp",
        "a\0b": "cannot be read: embedded null byte",
    }.items():
        with pytest.raises(FeaturemapError) as raised:
            load(name)
        assert said in str(raised.value)


def test_bundled_files_and_names_agree():
    folder = resources.files("ingot.schemas") / "featuremaps"
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    assert found == [f"{name}.yaml" for name in BUNDLED]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
sizes = st.integers(1, 2_000_000_000)
shares = st.floats(0, 1)
selects = st.fixed_dictionaries(
    {},
    optional={
        "strategy": st.sampled_from(["auto", "auto_mix", "topk_by_freq"]),
        "non_one_ratio_gte": shares,
        "value_std_gte": st.floats(0, 1e9),
        "value_fraction": shares,
    },
)


@st.composite
def features(draw: st.DrawFn, number: int, tabular: bool) -> dict[str, Any]:
    encoding = draw(st.sampled_from(["vocab", "hash", "hybrid"]))
    src = 0 if tabular else draw(st.integers(0, 1))
    one: dict[str, Any] = {"name": f"f{src}_{number}", "field": draw(texts), "encoding": encoding}
    if src or draw(st.booleans()):
        one["src"] = src
    if encoding != "hash":
        one["vocab_num_tokens"] = draw(sizes)
    if encoding != "vocab":
        one["hash_bucket"] = draw(sizes)
    if draw(st.booleans()):
        one |= {"max_len": draw(st.integers(1, 1_000_000)), "token_select": draw(selects)}
    one["use_value"] = draw(st.booleans())
    return one


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    tabular = draw(st.booleans())
    count = draw(st.integers(1, 4))
    document: dict[str, Any] = {
        "features": [draw(features(number, tabular)) for number in range(count)],
        "train_ratio": draw(shares),
        "split_seed": draw(st.integers(0, 2**63 - 1)),
        "token_select": draw(selects),
    }
    if tabular:
        document["table"] = {
            "entity_id": "\x07 entity",
            "y_ctr": "\x07 click",
            "y_cvr": None,
            "token_separator": draw(texts),
            "missing": draw(st.lists(texts, max_size=3)),
        }
        document["table"]["value_separator"] = document["table"]["token_separator"][:-1] + "\x07"
    return document


@given(documents())
@settings(max_examples=40)
def test_what_is_dumped_is_read(document):
    text = dump(document, heading="# A heading.")
    read = parse(text, "here")
    assert read == parse(yaml.safe_dump(document), "here")
    assert [one.field for one in read.features] == [one["field"] for one in document["features"]]
    assert read.text == text


@given(documents())
@settings(max_examples=40)
def test_what_it_says_written_out_says_the_same(document):
    read = parse(dump(document), "here")
    full = to_document(read)
    again = parse(dump(full), "here")
    assert to_document(again) == full
    assert [one.token_select for one in again.features if one.is_multi_hot] == [
        one.token_select for one in read.features if one.is_multi_hot
    ]
    assert again.sha256 == read.sha256
    assert json.loads(json.dumps(full)) == full


def test_the_hash_is_of_what_it_says():
    read = parse(LINE, "here")
    assert (
        parse("# other\n" + LINE.replace("field: a", 'field: "a"'), "there").sha256 == read.sha256
    )
    assert parse(LINE + "hash_seed: 18\n", "here").sha256 != read.sha256
    assert parse(LINE + "hash_seed: 17\n", "here").sha256 == read.sha256


def test_features_of_one_field_share_a_source():
    both = [ONE, feature(name="f0_b", encoding="hash", vocab_num_tokens="gone", hash_bucket=3)]
    assert parse(dump({"features": both}), "here").sources == ((0, "a"),)
