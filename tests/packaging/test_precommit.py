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


def test_neither_links_nor_files_of_settings_are_followed(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("secrets.json").write_text('{"version": 2, "text": "canary-77"}')
    Path("a.json").symlink_to("secrets.json")
    assert main(["a.json"]) == 1
    Path("gone.json").symlink_to("nowhere")
    assert main(["gone.json"]) == 1
    Path("b.json").write_text('{"version": 2, "text": "t"}')
    Path("b.golden.jsonl").symlink_to("secrets.json")
    assert main(["b.json"]) == 1
    told = capfd.readouterr().err
    assert told.count("is a link, which is not followed") == 3
    assert "canary-77" not in told
    Path("b.golden.jsonl").unlink()
    Path("b.golden.jsonl").write_text('{"row": {"t": "x"}, "records": [{"text": "y"}]}')
    Path("ingot.toml").write_text("[check]\nquiets = true\n")
    monkeypatch.setenv("INGOT_CONFIG", "ingot.toml")
    assert main(["b.json"]) == 1
    told = capfd.readouterr().err
    assert "1 of 1 golden rows" in told
    assert "quiets" not in told
