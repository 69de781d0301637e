"""A file appears whole or not at all."""

import pytest

from ingot.agent.model.sqlite_file import open_database
from ingot.converters.errors import OutputError
from ingot.converters.output.files import remove_unfinished, whole_file


def test_it_appears_at_the_end(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with whole_file(path) as stream:
        stream.write(b"after")
        stream.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with pytest.raises(TypeError), whole_file(path) as stream:
        stream.write("no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_taken_over(tmp_path):
    path = tmp_path / "a"
    (tmp_path / ".a.ingot-tmp").write_bytes(b"a long half file")
    with whole_file(path) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    for name in (".a.json.0a9fbeba.tmp", ".a.json.tmp", "a.0a9fbeba.tmp"):
        (tmp_path / name).write_bytes(b"half")
    with whole_file(tmp_path / "b", exclusive=False) as stream:
        stream.write(b"whole")
        remove_unfinished(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".a.json.tmp", "a.0a9fbeba.tmp", "b"}


def test_two_do_not_write_one_file(tmp_path):
    path = tmp_path / "a"
    with whole_file(path) as stream:
        stream.write(b"first")
        with pytest.raises(OutputError, match="another run is writing it"), whole_file(path):
            pass
    assert path.read_bytes() == b"first"


def test_a_damaged_database_is_not_taken_for_a_missing_right(tmp_path):
    (tmp_path / "runs.sqlite").write_bytes(b"no database" * 500)
    with pytest.raises(OutputError, match="damaged: move it away"):
        open_database(tmp_path / "runs.sqlite")
