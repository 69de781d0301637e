"""What the hook says of golden rows and samples whose mapping is not there."""

from pathlib import Path

import pytest

from ingot.precommit import main


@pytest.mark.parametrize("name", ["gone.golden.jsonl", "gone.sample/data/x.jsonl"])
def test_what_belongs_to_no_mapping_is_told(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([name]) == 0  # it is gone too
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("{}")
    assert main([name]) == 1
    assert "there is no mapping gone.json" in " ".join(capsys.readouterr().err.split())
