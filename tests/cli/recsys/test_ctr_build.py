"""`ingot ctr build`: its options, what it says, its exit codes."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingot.cli.app import app

FEATUREMAP = """
train_ratio: 1.0
features:
  - {name: f0_1, field: '1', encoding: vocab, vocab_num_tokens: 5, use_value: true}
  - {name: f0_2, field: '2', encoding: hybrid, vocab_num_tokens: 1, hash_bucket: 5, max_len: 3}
  - {name: f1_3, src: 1, field: '3', encoding: hash, hash_bucket: 100, max_len: 3}
"""
SKELETON = b"""\
s0,0,0,a,1,1\x02x\x031
s1,1,1,b,2,1\x02y\x032\x012\x02p\x031
s2,0,1,a,1,2\x02q\x031
s3,1,0,c,1,broken
"""
COMMON = b"a,1,3\x02t\x031\nb,1,3\x02u\x03nan\n"


@dataclass
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Place:
    """The folder that a command runs in, with raw files and a featuremap."""

    def __init__(self, folder: Path, shown: pytest.CaptureFixture[str]) -> None:
        self.folder, self._shown = folder, shown
        self.fill()

    def fill(self) -> None:
        (self.folder / "s.csv").write_bytes(SKELETON)
        (self.folder / "c.csv").write_bytes(COMMON)
        (self.folder / "map.yaml").write_text(FEATUREMAP)

    def run(self, *words: str) -> Done:
        code = 0
        try:
            app(["ctr", "build", *words], prog_name="ingot")
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Done(code, *self._shown.readouterr())

    def build(self, *words: str, out: str = "out") -> Done:
        raw = ["--skeleton", "s.csv", "--common", "c.csv", "--featuremap", "map.yaml"]
        return self.run(*raw, "--out", out, *words)

    def rows(self, out: str = "out", split: str = "train") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / out / split).to_pylist()
        return rows


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Place(tmp_path, capsys)


@pytest.mark.more
def test_the_command_itself(place: Place) -> None:
    """In a process of its own, as people run it."""
    words = ["--skeleton", "s.csv", "--common", "c.csv", "--featuremap", "map.yaml", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "ingot", "ctr", "build", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=place.folder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 train" in done.stdout
    assert len(place.rows()) == 4


def test_help_names_every_option(place: Place) -> None:
    done = place.run("--help")
    assert done.code == 0
    for option in (
        *("--out", "--featuremap", "--skeleton", "--common", "--table", "--vocab", "--overwrite"),
        *("--train-fraction", "--click-mask", "--tail-ids", "--funnel", "--json"),
    ):
        assert option in done.out
    assert "clicked|exposed" in done.out


def test_a_build_and_the_same_again(place: Place) -> None:
    done = place.build()
    assert done.code == 0, done.err
    assert "4 read: 4 train, 0 valid, 0 rejected, 0 dropped" in done.out
    assert "1 conversion without a click" in done.out
    assert "1 no_id" in done.out
    assert "1 unknown" in done.out
    again = place.build()
    assert again.code == 0
    assert "this result was there already" in again.out


def test_json(place: Place) -> None:
    done = place.build("--json")
    assert done.code == 0, done.err
    assert done.json["stats"]["rows"] == {
        **{"read": 4, "train": 4, "valid": 0},
        **{"rejected": 0, "dropped": 0},
    }
    assert done.json["stats"] == json.loads((place.folder / "out/stats.json").read_bytes())
    assert done.json["manifest"] == json.loads((place.folder / "out/manifest.json").read_bytes())
    assert not done.json["already_done"]
    assert place.build("--json").json["already_done"]


def test_every_option(place: Place) -> None:
    words = ["--click-mask", "exposed", "--tail-ids", "contract", "--funnel", "drop"]
    done = place.build(*words, "--train-fraction", "0.5", "--json")
    assert done.code == 0, done.err
    assert done.json["stats"]["rows"]["dropped"] == 1
    assert done.json["manifest"]["profile"] == {
        **{"schema_version": 2, "click_mask": "exposed"},
        **{"tail_ids": "contract", "funnel": "drop"},
    }
    written = (place.folder / "out/featuremap.yaml").read_text()
    assert "train_ratio: 0.5" in written
    rows = place.rows() + place.rows(split="valid")
    assert [row["click_mask"] for row in rows] == [1.0] * 3
    kept = place.build("--funnel", "coerce", out="coerced")
    assert kept.code == 0
    assert [row["y_cvr"] for row in place.rows("coerced")] == [0.0, 1.0, 0.0, 0.0]


def test_saved_vocabularies(place: Place) -> None:
    assert place.build().code == 0
    done = place.build("--vocab", "out", "--train-fraction", "0", out="new")
    assert done.code == 0, done.err
    assert place.rows("new", "valid") == place.rows()
    assert place.build("--vocab", "nowhere", out="x").code == 2
    (place.folder / "empty").mkdir()
    none = place.build("--vocab", "empty", out="x")
    assert none.code == 1
    assert "cannot be read as a vocabulary" in none.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--skeleton", "s.csv"],
        ["--common", "c.csv"],
        ["--table", "s.csv", "--skeleton", "s.csv"],
        ["--table", "s.csv", "--skeleton", "s.csv", "--common", "c.csv"],
    ],
)
def test_inputs_that_do_not_go_together(place: Place, words: list[str]) -> None:
    done = place.run("--featuremap", "map.yaml", "--out", "out", *words)
    assert done.code == 2
    assert "give --skeleton and --common, or --table alone" in done.err.replace("\n", " ")
    assert not (place.folder / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        *(["--train-fraction", "1.5"], ["--train-fraction", "-0.1"], ["--train-fraction", "nan"]),
        *(["--click-mask", "seen"], ["--tail-ids", "x"], ["--funnel", "x"], ["--frobnicate"]),
    ],
)
def test_wrong_options(place: Place, words: list[str]) -> None:
    done = place.build(*words)
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert not (place.folder / "out").exists()


def test_featuremaps_that_are_none(place: Place) -> None:
    for content, said in (
        ("features: [", "no YAML"),
        ("features: []", "1 problem in the featuremap"),
        ("features: [{name: f0_1, field: '1', encoding: vocab}]", "/features/0/vocab_num_tokens"),
    ):
        (place.folder / "map.yaml").write_text(content)
        done = place.build()
        assert done.code == 2
        assert said in done.err
    raw = ["--skeleton", "s.csv", "--common", "c.csv", "--out", "out"]
    done = place.run(*raw, "--featuremap", "nowhere.yaml")
    assert done.code == 2
    assert "there is aliccp" in done.err.replace("\n", " ")


def test_a_featuremap_for_tables(place: Place) -> None:
    table = "table: {entity_id: e, y_ctr: c, y_cvr: null}\n"
    own = "features: [{name: f0_1, field: '1', encoding: hash, hash_bucket: 5}]\n"
    (place.folder / "map.yaml").write_text(table + own)
    done = place.build()
    assert done.code == 2
    assert "is it meant for" in done.err
    (place.folder / "map.yaml").write_text(own)
    done = place.run("--table", "s.csv", "--featuremap", "map.yaml", "--out", "out")
    assert done.code == 2
    assert "a drafted featuremap has it" in done.err


def test_the_bundled_featuremap(place: Place) -> None:
    raw = ["--skeleton", "s.csv", "--common", "c.csv", "--out", "out"]
    rows = [b"%d,0,0,e%d,1,508\x02x\x031\n" % (number, number) for number in range(30)]
    (place.folder / "s.csv").write_bytes(b"".join(rows))
    done = place.run(*raw, "--featuremap", "aliccp")
    assert done.code == 0, done.err
    assert len(place.rows()[0]) == 6 + 23 + 8


def test_data_that_cannot_be_read(place: Place) -> None:
    for name, content, said in (
        ("s.csv", b"", "the files hold no row"),
        ("s.csv", b"x\n", "no row is left of 1 read: columns 1"),
        ("c.csv", None, "c.csv"),
    ):
        place.fill()
        path = place.folder / name
        path.unlink() if content is None else path.write_bytes(content)
        done = place.build()
        assert done.code == 1, done.err
        assert said in done.err
        assert "Traceback" not in done.err
        assert not (place.folder / "out").exists()


def test_a_destination_that_is_taken(place: Place) -> None:
    assert place.build().code == 0
    done = place.build("--funnel", "drop")
    assert done.code == 1
    assert "holds another result: another profile of the contract" in done.err.replace("\n", " ")
    assert place.build("--funnel", "drop", "--overwrite").code == 0


def test_control_characters_in_data_do_not_reach_the_terminal(place: Place) -> None:
    odd = b"\x1b[31mred\x07"
    (place.folder / "s.csv").write_bytes(b"%s,0,%s,%s,0,\n%s\n" % (odd, odd, odd, odd))
    done = place.build()
    assert done.code == 1
    assert "no row is left of 2 read" in done.err
    assert "\x1b" not in done.err + done.out
    assert "\x07" not in done.err + done.out
    name = "out\x1b[31m\x07"
    place.fill()
    done = place.build(out=name)
    assert done.code == 0
    assert "\x1b" not in done.err + done.out


def test_control_characters_of_a_vocabulary(place: Place) -> None:
    (place.folder / "s.csv").write_bytes(SKELETON.replace(b"\x02x\x03", b"\x02\x1b[31m\x03"))
    assert place.build().code == 0
    smaller = FEATUREMAP.replace("vocab_num_tokens: 5", "vocab_num_tokens: 1")
    (place.folder / "map.yaml").write_text(smaller)
    done = place.build("--vocab", "out", out="new")
    assert done.code == 1
    assert "this featuremap gives 2" in done.err.replace("\n", " ")
    assert "\x1b" not in done.err
