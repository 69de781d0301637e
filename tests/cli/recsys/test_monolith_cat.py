"""`ingot monolith cat`: rows for people and for programs."""

import gzip
import io
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ingot.cli.app import app
from ingot.converters.recsys.monolith import write_examples
from ingot.schemas.monolith.example_pb2 import Example
from ingot.schemas.monolith.line_id_pb2 import LineId

GOLDEN = Path(__file__).parents[2] / "golden" / "monolith"
BATCH = GOLDEN / "mono_examplebatch_sortid.pb"
PLAIN = GOLDEN / "mono_example_plain.pb"


def ran(*arguments: object, given: bytes | None = None) -> Result:
    words = ["monolith", "cat", *map(str, arguments)]
    return CliRunner().invoke(app, words, input=given, env={"TERM": "dumb"})


def rows(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rows_for_people() -> None:
    done = ran(BATCH, "--limit", 2)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    heads = [line for line in lines if line.startswith("row ")]
    assert heads == [
        "row 0, record 0, row 0 of it, offset 0",
        "row 1, record 0, row 1 of it, offset 0",
    ]
    assert lines[1].startswith("LineId req_time 1617194181 (2021-03-31 12:36:21 UTC), item_id 52")
    assert "__LABEL__ 0.0" in lines
    assert "f_spm_1 fid_v1_list 301:8728172714331105" in lines
    assert "124 unset" in lines
    assert f"{BATCH}: read as examplebatch, framing sort_id\n" in done.stderr


@pytest.mark.more
def test_rows_for_programs_are_the_same_in_every_form() -> None:
    batch, plain = rows(ran(BATCH, "--json")), rows(ran(PLAIN, "--json"))
    assert len(batch) == 51
    places = ("record", "row_in_batch", "offset")
    assert [{k: v for k, v in one.items() if k not in places} for one in batch] == [
        {k: v for k, v in one.items() if k not in places} for one in plain
    ]
    (fid,) = (one for one in batch[0]["features"] if one["name"] == "f_spm_1")
    assert fid["value"] == [5431062124068408289]


def test_what_is_said_is_not_guessed() -> None:
    done = ran(PLAIN, "--from", "example", "--framing", "none", "--limit", 1)
    assert (done.exit_code, done.stderr) == (0, "")


def test_features_by_name() -> None:
    (row,) = rows(ran(PLAIN, "--json", "--limit", 1, "--feature", "f_spm", "--feature", "f_page"))
    assert [one["name"] for one in row["features"]] == ["f_spm", "f_page"]


def test_standard_input_compressed() -> None:
    packed = gzip.compress(PLAIN.read_bytes())
    assert rows(ran("-", "--json", "--limit", 1, given=packed))[0]["record"] == 0


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_examples(tmp_path / name, [Example(label=[ord(name)], line_id=LineId(uid=1))] * 2)
    (tmp_path / "README.md").write_text("about it")
    told = ["--from", "example", "--json"]
    found = [(one["row"], one["record"], one["label"]) for one in rows(ran(tmp_path, *told))]
    assert found == [(0, 0, [97]), (1, 1, [97]), (2, 0, [98]), (3, 1, [98])]


def test_what_is_bad_is_told_and_passed_over(tmp_path: Path) -> None:
    good = Example(label=[1])
    good.named_feature.add(name="a").feature.int64_value = 1
    message = good.SerializeToString()
    frames = [message, b"", message, b"\x0a\x05ab", message]
    data = b"".join(struct.pack("<QQ", 0, len(one)) + one for one in frames)
    (tmp_path / "it").write_bytes(data[:-1])
    done = ran(tmp_path / "it", "--from", "example", "--framing", "sort_id", "--json")
    assert done.exit_code == 1
    assert [json.loads(line)["record"] for line in done.stdout.splitlines()] == [0, 2]
    told = done.stderr.splitlines()
    assert [line.split(": ")[2] for line in told] == [
        "a record is empty",
        "a record is not a message of its kind",
        "the stream ends inside a record",
    ]


def test_a_stream_that_is_cut_off_is_shown_up_to_there(tmp_path: Path) -> None:
    packed = gzip.compress(PLAIN.read_bytes())
    (tmp_path / "it.gz").write_bytes(packed[: len(packed) // 2])
    done = ran(tmp_path / "it.gz", "--json")
    assert done.exit_code == 1
    count = len(done.stdout.splitlines())
    assert count > 9
    said = f"it.gz: the rest of the stream cannot be read, after {count} records: cut off: the gzip"
    assert said in done.stderr


@pytest.mark.more
def test_tables(tmp_path: Path) -> None:
    table = tmp_path / "it.parquet"
    words = ["monolith", "convert", str(BATCH), str(table)]
    done = CliRunner().invoke(app, [*words, "--from", "examplebatch", "--to", "parquet"])
    assert done.exit_code == 0, done.output
    seen = rows(ran(table, "--json"))
    assert len(seen) == 51
    for one, other in zip(seen, rows(ran(BATCH, "--json")), strict=True):
        assert (one["record"], one["row_in_batch"]) == (one["row"], None)
        assert one["line_id"] == other["line_id"]
        assert sorted(map(str, one["features"])) == sorted(map(str, other["features"]))


def test_untrusted_text_is_harmless(tmp_path: Path) -> None:
    example = Example(label=[1])
    example.named_feature.add(name="a\x1b[31m\u009b1m").feature.bytes_value = "\u009b2m".encode()
    write_examples(tmp_path / "it", [example])
    for form in ([], ["--json"]):
        done = ran(tmp_path / "it", "--from", "example", *form)
        assert done.exit_code == 0
        assert not {"\x1b", "\u009b"} & set(done.stdout)
    assert rows(done)[0]["features"][0]["name"] == "a\x1b[31m\u009b1m"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{place}"], 1, "does not begin like a stream of Monolith (set"),
        (["{place}/no"], 1, "no such file or folder"),
        (["{place}", "--from", "text"], 2, "--from"),
        (["{place}", "--framing", "kafka"], 2, "'kafka' is not a framing (write parts of"),
        (["{place}", "--compression", "bz2"], 2, "--compression"),
        (["{place}", "--limit", "-1"], 2, "--limit"),
    ],
)
def test_errors(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / "it").write_bytes(b"no stream at all")
    done = ran(*(one.format(place=tmp_path / "it") for one in arguments))
    assert done.exit_code == code
    assert said in done.stderr


@pytest.mark.more
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    stream = io.BytesIO()
    write_examples(stream, [Example(label=[1, 2, 3], line_id=LineId(uid=1))] * 20_000)
    (tmp_path / "it").write_bytes(stream.getvalue())
    words = [
        "monolith",
        "cat",
        str(tmp_path / "it"),
        "--from",
        "example",
        "--framing",
        "sort_id",
        "--json",
    ]
    program = subprocess.Popen(
        [sys.executable, "-m", "ingot", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline().startswith(b'{"row":0')
    program.stdout.close()
    said = program.stderr.read()
    program.stderr.close()
    assert (program.wait(), said) == (0, b"")
