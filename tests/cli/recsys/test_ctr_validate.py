"""`ingot ctr validate`: what it prints, exit codes, hostile texts."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from ingot.cli.command import Command, Commands
from ingot.cli.recsys.ctr import validate_ctr
from ingot.converters.recsys.ctr.validation.findings import NUMBERS
from tests.converters.recsys.ctr.planting import cell
from tests.converters.recsys.ctr.right import TRAIN, VALID, make

GOLDEN = Path(__file__).parents[2] / "golden/ctr"
app = typer.Typer(cls=Commands)
app.command("validate", cls=Command)(validate_ctr)
app.command("other")(lambda: None)


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, arguments)], env={"TERM": "dumb"})


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("right") / "out", {"funnel": "drop"})


def test_a_right_folder_is_all_passed_and_exit_0(right):
    done = ran(right)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert f"rules    {len(NUMBERS)} passed, 0 broken, 0 not checked" in lines
    assert [line.split()[:2] for line in lines[4:]] == [[one, "passed"] for one in NUMBERS]
    assert "funnel drop" in done.stdout


def test_a_broken_rule_is_told_with_its_places_and_exit_1(tmp_path):
    root = make(tmp_path / "out")
    for row in range(5):
        cell("f0_3_idx", row, 0)(root)
    done = ran(root, "--max-shown", 2)
    assert done.exit_code == 1
    assert f"       {TRAIN} row 0 f0_3_idx: 0\n       {TRAIN} row 1 f0_3_idx: 0\n" in done.stdout
    assert "       and 3 more\n" in done.stdout
    assert "rules are broken: R3.4, " in done.stderr


def test_json_is_the_report(tmp_path):
    root = make(tmp_path / "out")
    (root / "manifest.json").unlink()
    done = ran(root, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["broken"] == ["R7.5"]
    assert [one["rule"] for one in told["rules"]] == list(NUMBERS)
    (rule,) = (one for one in told["rules"] if one["state"] == "broken")
    place = {"file": "manifest.json", "row": None, "column": None, "found": "no such file"}
    assert rule["places"] == [place]
    assert sum(told["rows"].values()) == 60
    assert told["not_checkable"]
    assert "1 rule is broken: R7.5" in done.stderr


def test_files_of_another_writer_with_a_featuremap_beside_them(tmp_path):
    for split in ("train", "valid"):
        (tmp_path / split).mkdir()
        source = GOLDEN / f"upstream_fullrank_{split}.parquet"
        (tmp_path / split / "a.parquet").write_bytes(source.read_bytes())
    done = ran(tmp_path, "--featuremap", GOLDEN / "featuremap_small.yaml")
    assert done.exit_code == 1
    assert "train/a.parquet y_ctr: int8, not float32" in done.stdout
    assert "1 rule is broken: R1.2" in done.stderr
    assert "note: the files carry no profile" in done.stdout


def test_hostile_texts_reach_no_terminal(tmp_path):
    root = make(tmp_path / "out")
    cell("entity_id", 0, "\x1b[2J\u202eevil\nR9.9 passed", VALID)(root)
    table = pq.read_table(root / TRAIN)
    names = ["x\x1b[31m" if name == "f0_3_idx" else name for name in table.schema.names]
    pq.write_table(table.rename_columns(names), root / TRAIN)
    done = ran(root)
    assert done.exit_code == 1
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)
    assert not [line for line in done.stdout.splitlines() if line.startswith("R9.9")]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 1, "nothing: no such folder"),
        ([GOLDEN], 1, "neither train/ nor valid/"),
        ([GOLDEN, "--max-shown", 0], 2, "--max-shown"),
        ([GOLDEN, "--featuremap", "gone.yaml"], 2, "gone.yaml: cannot be read"),
    ],
)
def test_errors_are_one_line(arguments, code, said):
    done = ran(*arguments)
    assert done.exit_code == code
    assert said in done.stderr
    assert done.stderr.startswith("error: ")


def test_a_folder_of_labels_alone(tmp_path):
    for split in ("train", "valid"):
        (tmp_path / split).mkdir()
        pq.write_table(pa.table({"y_ctr": ["yes"]}), tmp_path / split / "a.parquet")
    done = ran(tmp_path)
    assert done.exit_code == 1
    assert "rules are broken: R1.1, R1.2, R7.1" in done.stderr
