"""Where data may lie: files, folders, globs, URLs; what is left out; what is an error."""

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.sources import Source, SourceSpec, open_source
from ingot.converters.sources.storage import remote
from ingot.converters.sources.storage.listing import matches_globs
from ingot.converters.sources.storage.remote import call_with_retries

LINES = b'{"text": "a"}\n{"text": "b"}\n'


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def names(source: Source) -> list[str]:
    return [file.name for file in source.files]


def left_out(source: Source) -> dict[str, str]:
    return {item.name: item.why for item in source.left_out}


def count(source: Source) -> int:
    return sum(len(batch.values) for batch in source.batches())


def test_a_single_file(tmp_path: Path) -> None:
    fill(tmp_path, {"train.v2.jsonl.gz": LINES})
    source = open_source(str(tmp_path / "train.v2.jsonl.gz"))
    assert (names(source), source.name) == (["train.v2.jsonl.gz"], "train.v2")
    (file,) = source.files
    stat = (tmp_path / file.name).stat()
    assert (file.bytes, file.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    with file.open_raw() as raw:
        assert raw.read() == LINES


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    fill(tmp_path / "my.set", {"b/2.jsonl": LINES, "b/10.jsonl": LINES, "a.jsonl": LINES})
    source = open_source(str(tmp_path / "my.set"))
    assert names(source) == ["a.jsonl", "b/10.jsonl", "b/2.jsonl"]
    assert source.name == "my.set"
    assert [batch.file for batch in source.batches()] == names(source)
    assert count(source) == 6


def test_a_glob_names_files_from_its_fixed_part_on(tmp_path: Path) -> None:
    fill(tmp_path / "set", {"x/1.jsonl": LINES, "y/1.jsonl": LINES, "y/1.csv": b"a,b\n1,2\n"})
    source = open_source(str(tmp_path / "set/*/*.jsonl"))
    assert (names(source), source.name) == (["x/1.jsonl", "y/1.jsonl"], "set")
    deep = open_source(str(tmp_path / "set/**/*.jsonl"))
    assert names(deep) == ["x/1.jsonl", "y/1.jsonl"]


@pytest.mark.parametrize("prefix", ["memory://test-locations", "file://"])
def test_urls_are_read_like_paths(tmp_path: Path, prefix: str) -> None:
    top = f"{prefix}{tmp_path}" if prefix == "file://" else prefix
    file_system = fsspec.filesystem(prefix.partition(":")[0])
    for name in ("a.jsonl", "deep/b.jsonl", "README.md"):
        path = f"{top.removeprefix('file://')}/{name}"
        file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
        with file_system.open(path, "wb") as out:
            out.write(LINES)
    folder = open_source(top)
    assert (names(folder), count(folder)) == (["a.jsonl", "deep/b.jsonl"], 4)
    assert left_out(folder) == {"README.md": "auxiliary file"}
    assert names(open_source(f"{top}/*.jsonl")) == ["a.jsonl"]
    single = open_source(f"{top}/deep/b.jsonl")
    assert (names(single), single.name, count(single)) == (["b.jsonl"], "b", 2)
    with single.files[0].open_raw() as raw:
        assert raw.read() == LINES


def test_columnar_files_behind_a_url() -> None:
    table = pa.table({"text": ["a", "b", "c"]})
    with fsspec.open("memory://test-columnar/a.parquet", "wb") as out:
        pq.write_table(table, out)
    assert count(open_source("memory://test-columnar")) == 3


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("{top}/nothing", "no such file or folder"),
        ("{top}/*.nothing", "no file matches"),
        ("{top}/empty", "no files in it"),
        ("memory://nothing-here", "no such file or folder"),
        ("memory://nothing-here/*.json", "no files in it"),
        ("nonsense://x", "cannot open it"),
        ("{top}/image.bin", "no data in it: a PNG image"),
        ("{top}/zero.jsonl", "no data in it: empty"),
        ("{top}/blank.jsonl", "no data in it: blank"),
        ("{top}/half.parquet", "cut off: the Parquet file has no footer"),
        ("{top}/broken", "cut off: the Parquet file has no footer"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    tmp_path: Path, location: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), whole)
    half = whole.read_bytes()[:2000]
    fill(tmp_path, {"image.bin": b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "zero.jsonl": b""})
    fill(tmp_path, {"blank.jsonl": b" \n\n", "half.parquet": half})
    fill(tmp_path / "broken", {"a.parquet": half, "README.md": b"x"})
    with pytest.raises(SourceError, match=message) as caught:
        open_source(location.format(top=tmp_path))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


def test_no_permission_is_a_clear_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    fill(tmp_path, {"a.jsonl": LINES})
    (tmp_path / "a.jsonl").chmod(0)
    with pytest.raises(SourceError, match="no permission"):
        open_source(str(tmp_path / "a.jsonl"))


def test_side_files_are_left_out_with_the_reason(tmp_path: Path) -> None:
    files = {
        "data.jsonl": LINES * 50,
        "README.md": b"# A set",
        "LICENSE": b"free",
        ".DS_Store": b"\0\0\0\1Bud1",
        ".git/config": b"[core]",
        "__MACOSX/x.jsonl": LINES,
        "dataset_infos.json": b'{"default": {}}',
        "load.py": b"print(1)",
        "plot.png": b"\x89PNG\r\n\x1a\n",
        "weights": b"\x80\x04\x95" + bytes(100),
        "nothing.jsonl": b"",
        "config.json": b'{"lr": 0.1, "steps": 3}',
        "notes.txt": b"This is a note about the data.",
    }
    source = open_source(str(fill(tmp_path, files)))
    assert names(source) == ["data.jsonl"]
    assert left_out(source) == {
        "README.md": "auxiliary file",
        "LICENSE": "auxiliary file",
        ".DS_Store": "hidden",
        ".git/config": "hidden",
        "__MACOSX/x.jsonl": "hidden",
        "dataset_infos.json": "auxiliary file",
        "load.py": "auxiliary file (script)",
        "plot.png": "auxiliary file (image)",
        "weights": "a pickle, which is never read",
        "nothing.jsonl": "empty",
        "config.json": "another shape than the main files: json with lr, steps",
        "notes.txt": "another shape than the main files: text with text",
    }


def test_a_folder_of_side_files_only_is_an_empty_source(tmp_path: Path) -> None:
    source = open_source(str(fill(tmp_path, {"README.md": b"# x", "state.json": b"{}"})))
    assert (source.files, list(source.batches()), source.roots) == ((), [], ())
    assert set(left_out(source)) == {"README.md", "state.json"}


NOTES = {
    "authors.en.json": b'[{"a": 1}, {"a": 2}]',
    "people/AUTHORS.jsonl": LINES,
    "deep/changes.csv": b"a,b\n1,2\n3,4\n",
}


@pytest.mark.parametrize("place", NOTES)
def test_a_side_file_with_data_is_data_where_nothing_else_is(tmp_path: Path, place: str) -> None:
    others = {"citation.json": b"", "LICENSE.txt": b"free", "authors.md": b"# me"}
    files = {place: NOTES[place], **others}
    alone = open_source(str(fill(tmp_path / "alone", files)))
    assert (names(alone), count(alone)) == ([place], 2)
    assert left_out(alone)["LICENSE.txt"] == "auxiliary file"
    beside = open_source(str(fill(tmp_path / "beside", {**files, "data.jsonl": LINES})))
    assert names(beside) == ["data.jsonl"]
    assert left_out(beside)[place] == "auxiliary file"
    (tmp_path / "packed").mkdir()
    with zipfile.ZipFile(tmp_path / "packed/all.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    assert names(open_source(str(tmp_path / "packed"))) == [f"all.zip/{place}"]


def test_a_side_file_that_is_named_is_read(tmp_path: Path) -> None:
    folder = fill(tmp_path, {"README.md": b"# Title\n\nwords\n", "a.jsonl": LINES})
    assert count(open_source(str(folder / "README.md"))) == 1
    assert names(open_source(str(folder), SourceSpec(files=("*.md",)))) == ["README.md"]


def test_files_of_the_main_shape_stay_together(tmp_path: Path) -> None:
    """JSON lines and lists are read together where keys overlap; other keys are another shape."""
    rows = [{"q": "x" * 20, "a": "y"} for _ in range(20)]
    files = {
        "train.jsonl": "\n".join(map(json.dumps, rows)).encode(),
        "dev.json": json.dumps(rows[:3]).encode(),
        "extra.jsonl": b'{"q": "z", "a": "w", "more": 1}',
        "one.json": b'{"q": "z", "a": "w"}',
        "other.jsonl": b'{"word": "a", "count": 3}\n{"word": "b", "count": 4}\n',
    }
    source = open_source(str(fill(tmp_path, files)))
    assert names(source) == ["dev.json", "extra.jsonl", "one.json", "train.jsonl"]
    assert left_out(source) == {
        "other.jsonl": "another shape than the main files: jsonl with count, word"
    }
    assert count(source) == 25


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (("*.jsonl",), ["a.jsonl", "b/c.jsonl"]),
        (("b/*",), ["b/c.jsonl", "b/d.json"]),
        (("!b/*",), ["a.jsonl"]),
        (("*.jsonl", "!a*"), ["b/c.jsonl"]),
        (("**/d.json",), ["b/d.json"]),
        (("b/[cd].json*", "!**/c.*"), ["b/d.json"]),
    ],
)
def test_globs_of_the_mapping_choose_files(
    tmp_path: Path, patterns: tuple[str, ...], kept: list[str]
) -> None:
    folder = fill(tmp_path, {"a.jsonl": LINES, "b/c.jsonl": LINES, "b/d.json": LINES})
    source = open_source(str(folder), SourceSpec(files=patterns))
    assert names(source) == kept
    assert set(left_out(source).values()) <= {"not in source.files"}


def test_globs_that_choose_nothing_are_an_error(tmp_path: Path) -> None:
    folder = fill(tmp_path, {"a.jsonl": LINES})
    with pytest.raises(SourceError, match="no file matches"):
        open_source(str(folder), SourceSpec(files=("*.csv",)))


def test_a_pattern_is_no_regular_expression() -> None:
    assert matches_globs("a+b.json", ["a+b.json"])
    assert not matches_globs("aab.json", ["a+b.json"])
    assert matches_globs("x/y/z.json", ["x/**"])
    assert not matches_globs("x/y/z.json", ["x/*"])
    assert not matches_globs("a.jsonx", ["*.json"])


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    fill(tmp_path, {"real/a.jsonl": LINES})
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.jsonl").symlink_to(tmp_path / "real/a.jsonl")
    (tmp_path / "set/loop").symlink_to(tmp_path / "set")
    (tmp_path / "set/gone.jsonl").symlink_to(tmp_path / "nothing")
    assert names(open_source(str(tmp_path / "set"))) == ["a.jsonl"]


def test_a_source_survives_pickling(tmp_path: Path) -> None:
    source = open_source(str(fill(tmp_path, {"a.jsonl": LINES})))
    again = pickle.loads(pickle.dumps(source))
    assert again == source
    assert count(again) == 2


def test_some_files_can_be_read_alone(tmp_path: Path) -> None:
    source = open_source(str(fill(tmp_path, {"a.jsonl": LINES, "b.jsonl": LINES})))
    assert [batch.file for batch in source.batches(source.files[1:])] == ["b.jsonl"]


class Unreachable(AbstractFileSystem):
    """A storage that lists a file and then does not answer, with an error of its own kind."""

    protocol = "unreachable"

    class NoAnswerError(Exception):
        pass

    def info(self, path: str, **_: object) -> dict[str, object]:
        if "listed" not in path:
            raise self.NoAnswerError("name not known")
        return {"name": self._strip_protocol(path), "size": 10, "type": "file"}

    def isfile(self, path: str) -> bool:
        return bool(self.info(path))

    def _open(self, path: str, *_: object, **__: object) -> io.BytesIO:
        raise self.NoAnswerError("timed out\nafter 3 tries")


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "problem"),
    [("other", "the name of its server is not known here"), ("listed", "timed out")],
)
def test_a_storage_that_does_not_answer_is_an_error_of_its_own(
    name: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_FIRST_WAIT", 0.0)
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    with pytest.raises(StorageError, match=f"cannot be reached: {problem} ") as caught:
        open_source(f"unreachable://{name}.jsonl")
    assert caught.value.exit_code == 4


def test_the_hub_names_the_extra_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(SourceError, match=r'pip install "ingot\[hf\]"'):
        open_source("hf://datasets/someone/something")


def test_small_splits_keyed_by_id_stay_with_the_large_one(tmp_path: Path) -> None:
    """Other ids are no other shape, also where a file holds one or two records."""
    turn = {"said": "a long text", "by": "A"}
    files = {
        "train.json": {f"d{n}": {"turns": [turn], "goal": "x"} for n in range(9)},
        "dev.json": {"d77": {"turns": [turn], "goal": "y"}},
        "config.json": {"optimizer": {"lr": 0.1}, "model": {"depth": 3}},
    }
    folder = fill(tmp_path, {name: json.dumps(held).encode() for name, held in files.items()})
    assert names(open_source(str(folder))) == ["dev.json", "train.json"]


def test_splits_of_a_table_stay_together(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(
        "sentence\tlabel\n" + "a slow film\t0\na fine film\t1\n" * 9
    )
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\tan odd film\n1\ta long film\n")
    films = "".join(f"Film number {n}\t{1920 + n}\n" for n in range(6))
    (tmp_path / "films.tsv").write_text(f"film\tyear\n{films}")
    source = open_source(str(tmp_path))
    assert [file.name for file in source.files] == ["test.tsv", "train.tsv"]
    assert [one.name for one in source.left_out] == ["films.tsv"]


class _NoServerError(Exception):
    """As clients raise it: what is wrong is said by the text, or by its cause."""


@pytest.mark.more
@pytest.mark.parametrize(
    ("error", "times"),
    [
        (_NoServerError("[Errno -2] Name or service not known"), 2),
        (OSError(-3, "Temporary failure in name resolution"), 2),
        (_NoServerError("nodename nor servname provided, or not known"), 2),
        (_NoServerError("Could not resolve host: nowhere.example"), 2),
        (_NoServerError("connection reset"), 4),
        (FileNotFoundError("no such key"), 1),
    ],
)
def test_a_server_without_a_name_is_not_asked_for_long(
    error: Exception, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "3")
    monkeypatch.setattr(remote, "_FIRST_WAIT", 0.0)
    asked: list[int] = []

    def ask() -> None:
        asked.append(len(asked))
        raise error

    with pytest.raises(SourceError) as told:
        call_with_retries("hf://datasets/no/where", ask)
    assert len(asked) == times
    if times == 2:
        said = "cannot be reached: the name of its server is not known here"
        assert str(told.value) == (
            f"hf://datasets/no/where: {said} (check the network and the name)"
        )
