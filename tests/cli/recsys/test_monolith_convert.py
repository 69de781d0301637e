"""`ingot monolith convert`: what it prints and writes, and exit codes."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.recsys.monolith import read_examples
from ingot.schemas.monolith.example_pb2 import Example

GOLDEN = Path(__file__).parents[2] / "golden" / "monolith"


def ran(*words: object, code: int = 0) -> Any:
    said = ["monolith", "convert", *map(str, words)]
    done = CliRunner().invoke(app, said, env={"COLUMNS": "160"})
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "in.pb"
    frames = []
    for label in (0, 1, 1):
        example = Example(label=[label])
        example.named_feature.add(name="user_id").feature.fid_v2_list.value.append(7)
        example.named_feature.add(name="item_id").feature.SetInParent()
        message = example.SerializeToString()
        frames.append(struct.pack("<QQ", 0, len(message)) + message)
    path.write_bytes(b"".join([*frames, b"cut"]))
    return path


def test_it_writes_and_says_so(tmp_path):
    out = tmp_path / "b.pb"
    source = GOLDEN / "mono_example_sortid.pb"
    done = ran(source, out, "--from", "example", "--to", "examplebatch", "--batch-size", 20)
    assert done.stdout.splitlines() == [
        "rows     51 of 51",
        "batches  3",
        "note     51 rows lack uid, req_time or sample_rate in the LineId",
        f"files    {out}",
    ]


def test_what_is_bad_and_what_is_left_out(stream, tmp_path):
    out = tmp_path / "out.pb"
    words = (stream, out, "--from", "example", "--to", "example")
    done = ran(*words, code=1)
    assert "record 3, at byte" in done.output
    assert "skip_bad" in done.output.replace("--skip-bad", "skip_bad")
    options = ("--skip-bad", "--label", "0>=1", "--drop-unset", "--feature", "*_id")
    done = ran(*words, *options)
    assert done.stdout.splitlines() == [
        "rows      2 of 3",
        "left out  1: label",
        "rejected  1: the stream ends inside a record",
        f"          each is listed with its position in {out}.rejects.jsonl",
        "note      3 rows lack uid, req_time or sample_rate in the LineId",
        f"files     {out}",
    ]
    names = [[one.name for one in example.named_feature] for example in read_examples(out)]
    assert names == [["user_id"]] * 2
    ran(*words, code=1)  # it is there already
    done = ran(*words, *options, "--overwrite", "--json")
    told = json.loads(done.stdout)
    assert told["counts"]["rejects"] == {"truncated": 1}
    assert told["counts"]["filtered"] == {"label": 1}
    assert told["streams"][0]["name"] == "in.pb"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--label", "first>0"), "is not a test of a label"),
        (("--framing", "sortid"), "sortid"),
        (("--negative-rate", "2"), "above 0 and at most 1"),
        (("--seed", "1"), "need --negative-rate"),
        (("--batch-size", "0"), "greater than or equal to 1"),
    ],
)
def test_wrong_options_are_usage_errors(stream, tmp_path, words, said):
    done = ran(stream, tmp_path / "o", "--from", "example", "--to", "example", *words, code=2)
    assert said in done.output


def test_json_does_not_go_between_records(stream):
    done = ran(stream, "-", "--from", "example", "--to", "example", "--json", code=2)
    assert "name a file" in done.output
