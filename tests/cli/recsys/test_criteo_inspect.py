"""`ingot criteo inspect`: the tables, the page, the JSON."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from ingot.cli.command import Command, Commands
from ingot.cli.recsys.criteo_logs import inspect_criteo
from tests.converters.recsys.criteo.inspect.written import draw, write

app = typer.Typer(cls=Commands)
app.command("inspect", cls=Command)(inspect_criteo)
app.command("other")(lambda: None)


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"TERM": "dumb"})


def lines(done: Result) -> list[str]:
    assert done.exit_code == 0, done.output
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "out", [draw("day_0", 300, 1), draw("day_1", 200, 2)])


@pytest.mark.more
def test_tables(folder):
    told = json.loads(ran(folder, "--json").stdout)
    seen = lines(ran(folder, "--top", 2))
    rows, columns = told["parts"][1], told["sparse"][25]
    assert "figures of stats.json, vocab/" in seen
    assert f"label rate {100 * told['label_rate']:.1f} %" in seen
    assert "rejected columns 2, sparse 1" in seen
    rate = f"{100 * rows['label_rate']:.1f} %"
    assert f"day_1 200 {rows['ones']} {rate} 0 0 {rows['nonfinite']} kept" in seen
    first, second = columns["top"][:2]
    shares = [f"{100 * one['share']:.2f}"[:4] for one in (first, second)]
    wanted = f"cat_25 {first['id']} {first['raw']} {shares[0]} %, {second['id']} {second['raw']}"
    assert any(line.startswith(wanted) for line in seen)
    assert f"num_embeddings = {told['num_embeddings']}" in seen
    table = next(line for line in seen if line.startswith("cat_25 "))
    assert table.split()[1] == f"{columns['distinct']:,}"
    assert any(line.startswith("int_12 ") for line in seen)
    shares = [f"{100 * one['share']:.1f} %" for one in columns["coverage"] if one["ids"] in (1, 10)]
    assert any(line.startswith(f"cat_25 {' '.join(shares)}") for line in seen)


def test_arrays_alone_are_counted(folder):
    (folder / "stats.json").unlink()
    seen = lines(ran(folder, "--top", 0))
    assert "figures of the arrays" in seen
    assert any(line.startswith("note: counted from the arrays") for line in seen)
    heads = [line for line in seen if line.startswith(("part", "dense", "sparse"))]
    assert heads[0] == "part rows label 1 rate other not finite"
    assert heads[1] == "dense not finite least largest mean"
    assert heads[2] == "sparse distinct max id"
    assert "ids 1 10" in seen
    assert not any(line.startswith("Most frequent ids") for line in seen)


def test_a_page_is_written_beside_and_the_folder_is_not_touched(folder, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    page = tmp_path / "page.html"
    done = ran(folder, "--html", page)
    assert f"page {page}" in lines(done)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_json_is_all_of_stdout(folder, tmp_path):
    told = json.loads(ran(folder, "--json", "--top", 3, "--html", tmp_path / "x.html").stdout)
    assert (told["source"], told["rows"]) == ("stats.json", 500)
    assert [len(one["top"]) for one in told["sparse"]][-1] == 3
    assert (tmp_path / "x.html").is_file()


def test_names_cannot_write_to_the_terminal(tmp_path):
    name = "\x1b[31mred\x07"
    done = ran(write(tmp_path / "out", [draw(name, 9, 1)]))
    assert done.exit_code == 0, done.output
    assert not {"\x1b", "\x07"} & set(done.output)
    assert "[31mred" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 1, "nothing: "),
        (["OUT", "--html", "no/such/folder/x.html"], 1, "x.html: cannot be written"),
        (["OUT", "--top", "-1"], 2, "--top"),
    ],
)
def test_errors_are_one_line(folder, arguments, code, said):
    done = ran(*(folder if one == "OUT" else one for one in arguments))
    assert done.exit_code == code
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
