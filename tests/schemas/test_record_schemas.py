"""The schemas of the unified records: what they admit and what they refuse, and where."""

import copy

import pytest

from ingot.converters import json_yaml

META = {
    "source": "wiki",
    "language": "zh",
    "timestamp": "2024-05-01T08:00:00",
    "token_count": 12,
    "quality_score": 0.9,
    "original_id": "17",
}
PT = {"text": " 春眠不觉晓\n", "meta": META}
SFT = {
    "messages": [
        {"role": "user", "content": "1 + 1?", "loss_mask": False},
        {"role": "assistant", "content": "2", "loss_mask": True},
    ],
    "system": None,
    "meta": META,
}
GOOD_META = [
    dict.fromkeys(META),
    {**META, "quality_score": 0},
    {**META, "quality_score": 1.0},
    {**META, "token_count": 2**63 - 1},
]
BAD_META = [
    ({k: v for k, v in META.items() if k != "source"}, "/meta"),
    ({**META, "licence": "CC0"}, "/meta"),
    ({**META, "original_id": 17}, "/meta/original_id"),
    ({**META, "quality_score": 1.5}, "/meta/quality_score"),
    ({**META, "quality_score": True}, "/meta/quality_score"),
    ({**META, "token_count": 1.5}, "/meta/token_count"),
    ({**META, "token_count": 2**63}, "/meta/token_count"),
    ({**META, "timestamp": 1714550400}, "/meta/timestamp"),
    (None, "/meta"),
]


@pytest.mark.parametrize(("name", "record"), [("record.pt", PT), ("record.sft", SFT)])
class TestMeta:
    @pytest.mark.parametrize("meta", GOOD_META)
    def test_good(self, name, record, meta):
        assert json_yaml.violations(name, {**record, "meta": meta}) == []

    @pytest.mark.parametrize(("meta", "pointer"), BAD_META)
    def test_bad(self, name, record, meta, pointer):
        found = json_yaml.violations(name, {**record, "meta": meta})
        assert [place for place, _ in found] == [pointer]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"text": ""}, "/text"),
        ({"text": " \n\u3000"}, "/text"),
        ({"text": None}, "/text"),
        ({"text": ["a"]}, "/text"),
        ({"title": "a"}, ""),
    ],
)
def test_bad_pt_record(change, pointer):
    assert [p for p, _ in json_yaml.violations("record.pt", {**PT, **change})] == [pointer]


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Answer briefly."},
        {"tools": "[]"},
        {"tools": None},
        {"messages": [{**SFT["messages"][0], "role": "tool"}, SFT["messages"][1]]},
        {"messages": [{**SFT["messages"][0], "role": "system"}, *SFT["messages"]]},
    ],
)
def test_good_sft_record(change):
    assert json_yaml.violations("record.sft", {**SFT, **change}) == []


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"messages": None}, ["/messages"]),
        ({"messages": []}, ["/messages", "/messages"]),
        ({"messages": SFT["messages"][:1]}, ["/messages"]),
        ({"messages": SFT["messages"][1:]}, ["/messages"]),
        ({"system": ["a"]}, ["/system"]),
        ({"tools": []}, ["/tools"]),
        ({"text": "a"}, [""]),
    ],
)
def test_bad_sft_record(change, pointers):
    assert [p for p, _ in json_yaml.violations("record.sft", {**SFT, **change})] == pointers


@pytest.mark.parametrize(
    ("key", "value", "pointer"),
    [
        ("role", "human", "/messages/1/role"),
        ("content", "", "/messages/1/content"),
        ("content", None, "/messages/1/content"),
        ("loss_mask", None, "/messages/1/loss_mask"),
        ("loss_mask", 1, "/messages/1/loss_mask"),
        ("name", "Bob", "/messages/1"),
    ],
)
def test_bad_message(key, value, pointer):
    record = copy.deepcopy(SFT)
    record["messages"].insert(1, {**SFT["messages"][0], key: value})
    assert [p for p, _ in json_yaml.violations("record.sft", record)] == [pointer]


def test_both_records_have_the_same_meta():
    assert (
        json_yaml.schema("record.pt")["$defs"]["meta"]
        == json_yaml.schema("record.sft")["$defs"]["meta"]
    )
