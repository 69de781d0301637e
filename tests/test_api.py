"""The Python API: propose, check, convert, load."""

from pathlib import Path

import pytest

import ingot
from ingot.converters.errors import MappingError, SourceError

EXAM = str(Path(__file__).parents[1] / "examples/zh_exam")


def test_a_data_set_from_proposal_to_records(tmp_path):
    proposal = ingot.propose(EXAM)
    assert proposal.decision == "sft"
    assert ingot.check(proposal.mapping, EXAM).problems == ()
    result = ingot.convert(proposal.mapping, EXAM, tmp_path / "out")
    records = list(ingot.load(tmp_path / "out"))
    assert len(records) == result.manifest["rows"]["converted"] == 41
    assert records[0]["messages"][1]["role"] == "assistant"
    assert ingot.convert(proposal.mapping, EXAM, tmp_path / "out").already_done


def test_a_mapping_may_be_a_file(tmp_path):
    file = tmp_path / "mapping.json"
    file.write_text('{"version": 2, "text": "stem"}', encoding="utf-8")
    assert ingot.check(file, EXAM).records == 42


def test_what_is_wrong_is_said():
    with pytest.raises(MappingError, match="text"):
        ingot.convert({"version": 2, "text": 5}, EXAM, "out")
    with pytest.raises(SourceError):
        ingot.propose("no/such/folder")


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute"):
        ingot.nothing  # noqa: B018
