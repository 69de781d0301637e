"""`ingot criteo multihot`: what it prints and writes, and exit codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from ingot.cli.command import Command, Commands
from ingot.cli.recsys.criteo_logs import write_multihot

app = typer.Typer(cls=Commands)
app.command("multihot", cls=Command)(write_multihot)
app.callback()(lambda: None)  # so that the command keeps its name


def ran(*words: object, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["multihot", *map(str, words)], env={"COLUMNS": "160"})
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for day, rows in enumerate((5, 3)):
        ids = np.arange(rows * 26, dtype=np.int32).reshape(rows, 26)
        np.save(folder / f"day_{day}_sparse.npy", ids)
        np.save(folder / f"day_{day}_dense.npy", np.zeros((rows, 13), np.float32))
        np.save(folder / f"day_{day}_labels.npy", np.zeros((rows, 1), np.int32))
    return folder


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "hot.yaml"
    path.write_text(f"num_embeddings: {[40] * 26}\nmulti_hot_sizes: {[1, 3] * 13}\n")
    return path


def test_it_writes_and_says_so(data, config, tmp_path):
    out = tmp_path / "out"
    done = ran(data, "--config", config, "--out", out)
    assert done.stdout.split() == [
        *("rows", "8", "in", "2", "parts", "ids", "52", "per", "row;", "13", "of", "26"),
        *("features", "widened", "files", str(out)),
    ]
    with np.load(out / "day_1_sparse_multi_hot.npz") as archive:
        assert archive["0"].tolist() == [[0], [26], [12]]
        assert archive["1"][:, 0].tolist() == [1, 27, 13]
        assert archive["25"].shape == (3, 3)
    again = ran(data, "--config", config, "--out", out)
    assert "this result was there already: nothing to do" in again.stdout


def test_json_holds_the_manifest(data, config, tmp_path):
    words = (data, "--config", config, "--out", tmp_path / "out", "--threads", 2, "--json")
    told = json.loads(ran(*words).stdout)
    assert told["manifest"] == json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert told["manifest"]["parts"] == [{"name": "day_0", "rows": 5}, {"name": "day_1", "rows": 3}]
    assert told["already_done"] is False


def test_tables_are_kept_where_one_wants_them(data, config, tmp_path):
    ran(data, "--config", config, "--out", tmp_path / "out", "--tables", tmp_path / "tables")
    (place,) = (tmp_path / "tables").glob("multihot-*")
    assert (place / "table_1.npy").is_file()


def test_wrong_parameters_are_exit_code_2(data, tmp_path):
    path = tmp_path / "hot.yaml"
    path.write_text("num_embeddings: [1, 2]\nmulti_hot_sise: 3\n")
    done = ran(data, "--config", path, "--out", tmp_path / "out", code=2)
    assert "2 problems in the parameters" in done.stderr
    assert "'multi_hot_sise' was unexpected" in done.stderr
    assert not (tmp_path / "out").exists()


def test_another_result_stays_unless_told(data, config, tmp_path):
    out = tmp_path / "out"
    ran(data, "--config", config, "--out", out)
    config.write_text(config.read_text() + "seeding: global0\n")
    assert "--overwrite" in ran(data, "--config", config, "--out", out, code=1).stderr
    ran(data, "--config", config, "--out", out, "--overwrite")


def test_names_of_data_reach_no_terminal_raw(config, tmp_path):
    folder = tmp_path / "bad\x1b[2J"
    folder.mkdir()
    done = ran(folder, "--config", config, "--out", tmp_path / "out", code=1)
    assert "no arrays" in done.stderr
    assert "\x1b" not in done.output
