"""`ingot ctr draft`: what it prints and writes, exit codes, and a build with what it proposes."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from ingot.cli.command import Command, Commands
from ingot.cli.recsys.ctr import build, draft
from ingot.converters.recsys.ctr.featuremap import load

app = typer.Typer(cls=Commands)
for command in (draft, build):
    app.command(command.__name__, cls=Command)(command)


def ran(*words: object, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = random.Random(5)
    lines = ["log_id,user,item,click,buy,tags,price,odd\x1b[2J"]
    for number in range(1500):
        click = rng.random() < 0.3
        tags = "|".join(
            f"t{rng.randint(1, 40)}:{rng.random():.2f}" for _ in range(rng.randint(0, 9))
        )
        cells = [number, f"u{rng.randint(1, 90)}", f"i{rng.randint(1, 200)}", int(click)]
        cells += [int(click and rng.random() < 0.4), tags, f"{rng.random():.4f}", rng.choice("ab")]
        lines.append(",".join(map(str, cells)))
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_draft_is_built(table, tmp_path):
    made = tmp_path / "featuremap.yaml"
    done = ran("draft", table, "-o", made)
    assert done.stdout.startswith("3 features from all 1,500 rows of ")
    featuremap = load(made)
    assert [one.field for one in featuremap.features][:2] == ["item", "tags"]
    ran("build", "--table", table, "--featuremap", made, "--out", tmp_path / "out")
    rows = sum(pq.read_table(tmp_path / "out" / split).num_rows for split in ("train", "valid"))
    assert rows == 1500


def test_without_a_file_it_goes_to_stdout(table):
    done = ran("draft", table)
    assert done.stdout.startswith("# Drafted by ingot from log.csv: all of its 1,500")
    assert "\x1b" not in done.output


def test_json_says_everything(table, tmp_path):
    made = tmp_path / "featuremap.yaml"
    told = json.loads(ran("draft", table, "-o", made, "--rows", 500, "--json").stdout)
    assert told["featuremap"] == made.read_text()
    assert (told["rows"], told["whole"]) == (500, False)
    roles = [(one["column"], one["role"]) for one in told["columns"] if one["role"] != "feature"]
    wanted = {"click": "click", "buy": "conversion", "user": "entity", "log_id": "sample"}
    assert roles == [*wanted.items(), ("user", "left_out"), ("price", "left_out")]


@pytest.mark.more
def test_what_tells_the_label_is_left_out_and_can_be_asked_for(table, tmp_path):
    lines = table.read_text().splitlines()
    spots = [line.split(",")[3] for line in lines[1:]]
    more = [f"{line},{1 - int(spot)}" for line, spot in zip(lines[1:], spots, strict=True)]
    table.write_text("\n".join([lines[0] + ",nonclk", *more]) + "\n")
    reason = "tells click: each of its values stands beside one value of click only"
    done = ran("draft", table)
    assert f"#   nonclk: {reason}" in done.stdout
    screen = f"please check: nonclk is left out: {reason} (--feature uses it anyway)"
    assert screen in done.stderr
    made = tmp_path / "featuremap.yaml"
    ran("draft", table, "-o", made, "--feature", "nonclk", "--feature", "user")
    assert {"nonclk", "user"} <= {one.field for one in load(made).features}


def test_a_file_that_is_there_stays(table, tmp_path):
    made = tmp_path / "featuremap.yaml"
    made.write_text("mine")
    assert "exists already" in ran("draft", table, "-o", made, code=1).stderr
    assert made.read_text() == "mine"
    ran("draft", table, "-o", made, "--overwrite")
    assert made.read_text() != "mine"


def test_what_is_not_found_is_asked_for(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,seen,x\n" + "a,1,k\nb,0,l\nc,1,l\n" * 40)
    made = tmp_path / "featuremap.yaml"
    said = ran("draft", path, code=3).stderr
    assert "--label (a column of 0 and 1: seen)" in " ".join(said.split())
    assert "--entity, such as the user's id" in " ".join(said.split())
    ran("draft", path, "-o", made, code=3)
    assert not made.exists()
    done = ran("draft", path, "-o", made, "--label", "seen", "--entity", "who")
    assert "please check: no column is plainly a conversion" in done.stderr
    table = load(made).table
    assert table is not None
    assert (table.y_ctr, table.entity_id, table.y_cvr) == ("seen", "who", None)
