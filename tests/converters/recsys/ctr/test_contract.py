"""The processed contract's columns, types and profile."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.recsys.ctr import contract
from ingot.converters.recsys.ctr.contract import METADATA_KEY, Profile, processed_schema
from ingot.converters.recsys.ctr.featuremap import load, parse

LIST_IDS = pa.list_(pa.field("element", pa.int64(), nullable=False))
LIST_VALUES = pa.list_(pa.field("element", pa.float32(), nullable=False))


def test_columns_of_the_contract_in_their_order():
    featuremap = load("aliccp")
    schema = processed_schema(featuremap)
    required = ["y_ctr", "y_cvr", "y_ctcvr", "click_mask", "row_id", "entity_id"]
    assert schema.names[:6] == required == list(contract.REQUIRED)
    assert schema.types[:6] == [pa.float32()] * 4 + [pa.int64(), pa.string()]
    rest = []
    for one in featuremap.features:
        rest.append(f"{one.name}_idx")
        rest += [f"{one.name}_val"] * one.use_value
    assert schema.names[6:] == rest
    assert len(rest) == 23 + 8
    assert not any(field.nullable for field in schema)


def test_types_of_features():
    schema = processed_schema(load("aliccp"))
    assert schema.field("f0_508_idx").type == pa.int64()
    assert schema.field("f0_508_val").type == pa.float32()
    assert schema.field("f1_110_14_idx").type == LIST_IDS
    assert schema.field("f1_110_14_val").type == LIST_VALUES
    assert "f0_210_val" not in schema.names
    assert schema.field("f0_210_idx").type == LIST_IDS


def test_the_profile_stands_in_the_metadata_and_survives_parquet(tmp_path):
    line = "features: [{name: f0_a, field: a, encoding: vocab, vocab_num_tokens: 5}]\n"
    chosen = parse(line + "click_mask: exposed\ntail_ids: contract\nfunnel: coerce\n", "here")
    schema = processed_schema(chosen)
    expected = {
        "schema_version": 2,
        "click_mask": "exposed",
        "tail_ids": "contract",
        "funnel": "coerce",
    }
    assert json.loads(schema.metadata[METADATA_KEY]) == expected
    assert Profile(**expected) == Profile.of(chosen)
    assert Profile.of(parse(line, "here")) == Profile()
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    back = pq.read_schema(tmp_path / "a.parquet")
    assert json.loads(back.metadata[METADATA_KEY]) == expected
    assert back.names == schema.names
    assert [field.nullable for field in back] == [False] * len(schema)


def test_ids_that_mean_something():
    assert (contract.PAD, contract.MISSING, contract.OOV) == (0, 1, 2)
    assert (contract.VOCAB_FIRST, contract.HASH_FIRST) == (3, 2)
    assert (contract.MISSING_VALUE, contract.PAD_VALUE) == (1.0, 0.0)
    assert contract.SCHEMA_VERSION == 2
