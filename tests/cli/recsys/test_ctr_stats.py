"""`ingot ctr stats`: the tables, the page, the JSON."""

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from ingot.cli.command import Command, Commands
from ingot.cli.recsys.ctr import show_ctr_stats
from ingot.converters.recsys.ctr import featuremap
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.preprocess.job import build

GOLDEN = Path(__file__).parents[2] / "golden/ctr"
app = typer.Typer(cls=Commands)
app.command("stats", cls=Command)(show_ctr_stats)
app.command("other")(lambda: None)


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["stats", *map(str, arguments)], env={"TERM": "dumb"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "out"
    skeleton, common = GOLDEN / "sample_skeleton_train.csv", GOLDEN / "common_features_train.csv"
    inputs = Aliccp(skeleton=str(skeleton), common=str(common))
    build(inputs, featuremap.load(GOLDEN / "featuremap_small.yaml"), out)
    return out


def test_tables(built):
    done = ran(built)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in (
        "rows 1,226 274",
        "entities 130 20",
        "without a click 18 2",
        "ctr 11.6 % 14.6 %",
        "cvr of clicks 25.4 % 27.5 %",
        "cvr of impressions 4.40 % 4.74 %",
        "f0_508 vocab 31.5 % 32.3 %",
        "f1_110_14 hash 11.3 % 100 %",
        "f1_110_14 11.2 9 24 33 35 9 45.3 % 49.4 % 65.9 %",
    ):
        assert line in lines
    assert max(map(len, done.stdout.splitlines()[8:])) <= 80
    assert "f0_508 55 20 66.0 % 25.7 %" in lines
    assert "figures of stats.json" in lines
    assert "Features in valid" in lines


def test_rows_are_counted_where_nothing_else_says_it(built, tmp_path):
    for split in ("train", "valid"):
        shutil.copytree(built / split, tmp_path / split)
    done = ran(tmp_path)
    assert done.exit_code == 0, done.output
    assert "figures of  the rows" in done.stdout
    assert "note: no stats.json" in done.stdout
    assert "note: no featuremap.yaml" in done.stdout
    assert "rows cut" not in done.stdout
    done = ran(tmp_path, "--featuremap", GOLDEN / "featuremap_small.yaml")
    assert "32.3 %" in done.stdout
    assert "no featuremap.yaml" not in done.stdout


def test_a_page_is_written_beside_and_the_folder_is_not_touched(built, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    page = tmp_path / "page.html"
    done = ran(built, "--html", page)
    assert done.exit_code == 0, done.output
    assert str(page) in done.stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*")} == before


def test_json(built, tmp_path):
    done = ran(built, "--json", "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["source"] == "stats.json"
    assert told["features"]["f1_110_14"]["splits"]["train"]["value_kept"] == 0.658641
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 1, "nothing: no such folder"),
        (["BUILT", "--html", "no/such/folder/x.html"], 1, "x.html: cannot be written"),
        (["BUILT", "--featuremap", "gone.yaml"], 2, "gone.yaml: cannot be read"),
    ],
)
def test_errors_are_one_line(built, arguments, code, said):
    done = ran(*(built if one == "BUILT" else one for one in arguments))
    assert done.exit_code == code
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
