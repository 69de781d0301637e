"""What a conversion really writes is what the schemas say."""

import json

import pytest

from ingot.converters import json_yaml
from ingot.converters.convert.job import ConvertOptions, convert, stage_irrelevant
from ingot.converters.mapping.bind import bind
from ingot.converters.records.readers import read_records
from ingot.converters.sources import open_source

ROWS = [
    {"q": "1 + 1?", "a": "2", "score": 0.5, "n": 3, "id": 1},
    {"q": "2 + 2?", "a": "4", "score": 7, "n": None, "tools": [{"name": "add"}]},
    {"q": "3 + 3?", "a": ""},
    {"q": {"text": "4 + 4?"}, "a": "8"},
]
META = {"original_id": "id", "quality_score": "score", "token_count": "n"}
PT = {"version": 2, "text": ["q", "a"], "meta": META}
SFT = {
    "version": 2,
    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
    "tools": {"path": "tools", "as": "json"},
    "meta": META,
}


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "set" / "rows.jsonl"
    file.parent.mkdir()
    lines = [json.dumps(row) for row in ROWS]
    file.write_text("\n".join([*lines, '{"q": "5 + 5?']) + "\n", encoding="utf-8")
    (file.parent / "README.md").write_text("# Sums\n", encoding="utf-8")
    return open_source(str(file.parent))


@pytest.mark.parametrize("records", ["parquet", "jsonl"])
@pytest.mark.parametrize(("kind", "document"), [("pt", PT), ("sft", SFT)])
def test_manifest_and_records(source, tmp_path, kind, document, records):
    mapping = bind(document, ROWS, where="test")
    convert(source, mapping, tmp_path / "out", ConvertOptions(records=records))
    manifest = json.loads((tmp_path / "out/manifest.json").read_bytes())
    assert json_yaml.violations("manifest", manifest) == []
    found = list(read_records(tmp_path / "out/records"))
    assert len(found) == manifest["records"]["written"] > 0
    assert [json_yaml.violations(f"record.{kind}", record) for record in found] == [[]] * len(found)
    rows = manifest["rows"]
    assert rows["read"] == rows["converted"] + rows["rejected"] + rows["filtered"] == 5


def test_manifest_of_an_irrelevant_set(source, tmp_path):
    with stage_irrelevant(
        source, tmp_path / "out", "Sums are no text.", ConvertOptions()
    ) as staged:
        staged.commit({}, {})
    manifest = json.loads((tmp_path / "out/manifest.json").read_bytes())
    assert json_yaml.violations("manifest", manifest) == []
