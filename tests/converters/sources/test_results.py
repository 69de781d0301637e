"""What ingot wrote below a source is no data of it, unless it is the source."""

import json
from pathlib import Path

import fsspec
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.sources import Source, SourceSpec, open_source
from tests.conftest import SURE

ROWS = b"".join(
    b'{"instruction": "What is %d and one?", "output": "It is %d."}\n' % (n, n + 1)
    for n in range(40)
)
RECORDS = b'{"text": "' + b"a record of an earlier run " * 400 + b'"}\n'
OURS = b'{"versions": {"ingot": "0.1.0", "format": 1}, "decision": "pt"}'
WHY = "a result of ingot"
RESULT = {"records/part-00000.jsonl": RECORDS, "mapping.json": b"{}", "manifest.json": OURS}


def fill(folder: Path | str, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        with fsspec.open(f"{folder}/{name}", "wb", auto_mkdir=True) as out:
            out.write(data)
    return str(folder)


def below(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def names(source: Source) -> list[str]:
    return [file.name for file in source.files]


def left_out(source: Source) -> dict[str, str]:
    return {item.name: item.why for item in source.left_out}


@pytest.mark.parametrize("remote", [False, True])
def test_a_result_is_left_out_as_a_whole_however_large(tmp_path: Path, remote: bool) -> None:
    top = "memory://test-results" if remote else tmp_path
    files = {"a.jsonl": ROWS, "b/c.jsonl": ROWS}
    location = fill(top, files | below("out", RESULT) | below("b/deep/out", RESULT))
    source = open_source(location)
    assert names(source) == ["a.jsonl", "b/c.jsonl"]
    assert left_out(source) == {"b/deep/out": WHY, "out": WHY}
    chosen = source.with_spec(SourceSpec(files=("*.jsonl",)))
    assert (names(chosen), left_out(chosen)) == (names(source), left_out(source))


def test_a_result_that_is_the_source_is_read(tmp_path: Path) -> None:
    fill(tmp_path / "out", RESULT)
    fill(tmp_path / "out.proposal", {"mapping.json": b"{}", "report.md": b"#", "a.jsonl": ROWS})
    assert "records/part-00000.jsonl" in names(open_source(str(tmp_path / "out")))
    assert "a.jsonl" in names(open_source(str(tmp_path / "out.proposal")))
    everything = open_source(str(tmp_path))
    assert everything.files == ()
    assert left_out(everything) == {"out": WHY, "out.proposal": WHY}


def test_a_glob_walks_into_no_result(tmp_path: Path) -> None:
    fill(tmp_path, {"x/a.jsonl": ROWS} | below("out", RESULT))
    source = open_source(str(tmp_path / "*"))
    assert (names(source), left_out(source)) == (["x/a.jsonl"], {"out": WHY})


def test_unfinished_runs_and_proposals_are_each_named_once(tmp_path: Path) -> None:
    stage = below(".out.ingot-stage-0f3a", {"one.jsonl": RECORDS} | below("result", RESULT))
    proposal = below("out.proposal", {"mapping.json": b"{}", "report.md": b"# seen"})
    source = open_source(fill(tmp_path, {"a.jsonl": ROWS} | stage | proposal))
    assert names(source) == ["a.jsonl"]
    assert left_out(source) == {".out.ingot-stage-0f3a": WHY, "out.proposal": WHY}


@pytest.mark.parametrize(
    "manifest",
    [
        b'{"versions": {"format": 1}}',
        b'{"versions": ["ingot"]}',
        b'["versions", "ingot"]',
        b'{"versions": {"ingot": "0.1.0"}',
        b"\xff\xfe\x00",
        b"",
    ],
)
def test_a_manifest_of_somebody_else_hides_nothing(tmp_path: Path, manifest: bytes) -> None:
    files = {"part/manifest.json": manifest, "part/a.jsonl": ROWS}
    files |= {"x.proposal/mapping.json": b"{}", "x.proposal/b.jsonl": ROWS}
    source = open_source(fill(tmp_path, files))
    assert {"part/a.jsonl", "x.proposal/b.jsonl"} <= set(names(source))
    assert WHY not in left_out(source).values()


@pytest.mark.more
def test_a_run_into_its_own_source_is_there_already_the_second_time(tmp_path: Path) -> None:
    data = fill(tmp_path / "data", {"a.jsonl": ROWS})
    out = tmp_path / "data" / "out"
    command = ["run", data, "--out", str(out), *SURE]
    first = CliRunner().invoke(app, command)
    assert (first.exit_code, "there already" in first.output) == (0, False)
    manifest = json.loads((out / "manifest.json").read_bytes())
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert "this result was there already: nothing to do" in again.output
    assert [item["name"] for item in manifest["inputs"]] == ["a.jsonl"]
    assert json.loads((out / "manifest.json").read_bytes()) == manifest


@pytest.mark.more
def test_a_second_result_beside_the_first_has_the_same_records(tmp_path: Path) -> None:
    data = fill(tmp_path / "data", {"a.jsonl": ROWS})
    for name in ("out", "more"):
        ran = CliRunner().invoke(app, ["run", data, "--out", f"{data}/{name}", *SURE])
        assert ran.exit_code == 0
    one, two = (
        json.loads(Path(data, out, "manifest.json").read_bytes()) for out in ("out", "more")
    )
    assert one["inputs"] == two["inputs"]
    assert two["left_out"] == [{"name": "out", "reason": WHY}]
    hashes = [[f for f in m["files"] if f["path"].startswith("records")] for m in (one, two)]
    assert hashes[0] == hashes[1]
