"""docs/criteo.md and the commands of docs/cli.md: what is shown runs, what is listed is there."""

import inspect
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.json_yaml import schema
from ingot.converters.recsys.criteo import CriteoDataset, MultiHot
from ingot.converters.recsys.criteo.multihot import job
from ingot.converters.recsys.criteo.preprocess.raw_lines import REASONS
from ingot.converters.recsys.training.loader import WorkerOptions

TESTS = Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "golden/criteo"
TEXT = (TESTS.parent / "docs/criteo.md").read_text(encoding="utf-8")
CLI = (TESTS.parent / "docs/cli.md").read_text(encoding="utf-8")


def part(heading: str, text: str = TEXT) -> str:
    """The text under a heading, up to the next."""
    return re.split(rf"^#+ {re.escape(heading)}\n", text, flags=re.M)[1].split("\n#")[0]


def rows(heading: str, text: str = TEXT, table: int = 1) -> Iterator[list[str]]:
    """The cells of a table under a heading."""
    lines = f"\n{part(heading, text)}".split("\n\n|")[table].split("\n\n")[0].splitlines()
    for line in lines[2:]:
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


def named(heading: str, text: str = TEXT, table: int = 1) -> list[str]:
    """What stands as code in the first column of a table."""
    return [
        name for cells in rows(heading, text, table) for name in re.findall("`([^`]+)`", cells[0])
    ]


def commands() -> list[str]:
    text = TEXT.replace("\\\n", " ")
    return re.findall(r"^    (ingot criteo .*)$", text, flags=re.M)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which every command that is shown has been run, in order."""
    root = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("INGOT_HOME", str(root / "state"))
        _raw(root)
        for command in commands():
            done = CliRunner().invoke(app, shlex.split(command)[1:])
            ended = (0, 5) if "--shard" in command else (0,)
            assert done.exit_code in ended, f"{command}\n{done.output}"
        yield root


def _raw(root: Path) -> None:
    for folder in ("days", "new_days"):
        (root / folder).mkdir()
    for day in range(3):
        shutil.copy(GOLDEN / f"day_{day}", root / "days")
    shutil.copy(GOLDEN / "day_1", root / "new_days/day_24")
    (root / "multihot.yaml").write_text(
        f"num_embeddings: {[1000] * 26}\nmulti_hot_size: 3\nmulti_hot_min_table_size: 500\n"
    )


@pytest.mark.more
def test_every_command_runs(place):
    assert len(commands()) >= 6
    assert (place / "out.html").is_file()


@pytest.mark.more
def test_every_python_block_runs(place):
    pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, "docs/criteo.md", "exec"), {})


@pytest.mark.more
def test_files_are_those_that_are_written(place):
    shown = named("What a run writes")
    lines = (place / "days/day_0").read_bytes().splitlines(keepends=True)
    (place / "odd").mkdir()
    (place / "odd/day_0").write_bytes(b"".join([*lines[:9], b"odd\n"]))
    done = CliRunner().invoke(
        app, ["criteo", "preprocess", "--input-dir", "odd", "--out", "odd_out"]
    )
    assert done.exit_code == 0, done.output
    written = {str(path.relative_to("odd_out")) for path in Path("odd_out").rglob("*.*")}
    assert {one for one in written if not one.startswith("vocab/")} | {
        "vocab/cat_0.parquet"
    } == set(shown)
    (reject,) = (Path("odd_out") / "rejects.jsonl").read_text().splitlines()
    (told,) = re.findall(r'`(\{"file".*?\})`', TEXT)
    assert json.loads(reject).keys() == json.loads(told).keys()


@pytest.mark.more
def test_the_reject_that_is_shown_is_one(place):
    (told,) = re.findall(r'`(\{"file".*?\})`', TEXT)
    lines = (place / "days/day_0").read_bytes().splitlines(keepends=True)
    (place / "one").mkdir()
    bad = b"x" + lines[7].lstrip(b"01")
    (place / "one/day_0").write_bytes(b"".join([*lines[:7], bad]))
    done = CliRunner().invoke(
        app, ["criteo", "preprocess", "--input-dir", "one", "--out", "one_out"]
    )
    assert done.exit_code == 0, done.output
    assert Path("one_out/rejects.jsonl").read_text().strip() == told


def test_reasons_are_those_of_the_code():
    assert tuple(named("The raw files", table=2)) == REASONS


def test_columns_of_vocabularies(place):
    import pyarrow.parquet as pq

    told = [(cells[0].strip("`"), cells[1]) for cells in rows("Ids and vocabularies")]
    written = pq.read_schema("out/vocab/cat_3.parquet")
    assert told == [(field.name, str(field.type)) for field in written]


def test_every_key_of_stats_json_is_named(place):
    stats = json.loads(Path("out/stats.json").read_bytes())
    names = re.findall("`([^`]+)`", part("stats.json"))
    entries = [stats, *stats["parts"], *stats["dense"], *stats["sparse"]]
    assert {key for entry in entries for key in entry} <= set(names)
    assert set(stats) == set(named("stats.json"))
    assert set(stats["parts"][0]["labels"]) <= set(names)


def test_arguments_of_the_classes():
    shown = set(named("Training: `CriteoDataset`"))
    known = {*inspect.signature(CriteoDataset).parameters, *WorkerOptions.__annotations__}
    assert shown == known - {"folder", "workers"}
    assert set(named("`MultiHot`")) == set(inspect.signature(MultiHot).parameters)


def test_parameters_in_a_file(tmp_path):
    (shown,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    (tmp_path / "it.yaml").write_text(shown)
    sizes = job.load_config(tmp_path / "it.yaml").parameters.sizes
    assert (len(sizes), max(sizes)) == (26, 100)
    known = set(schema("multihot")["properties"])
    assert known == set(named("`MultiHot`")) - {"folder"}


@pytest.mark.parametrize("name", ["preprocess", "inspect", "multihot"])
def test_every_option_of_a_command_stands_in_cli_md(name):
    group: Any = get_command(app)
    command = group.get_command(None, "criteo").get_command(None, name)
    known = {
        word
        for one in command.params
        if one.param_type_name == "option" and one.name != "help"
        for word in [*one.opts, *one.secondary_opts]
    }
    shown = {word.split(" ")[0] for word in named(f"`ingot criteo {name}`", CLI)}
    assert shown == known
    assert f"    ingot criteo {name} " in CLI


def test_sections_that_are_linked_exist():
    links = re.findall(r"\]\((?:(cli|criteo)\.md)?#([\w-]+)\)", TEXT)
    for file, anchor in links:
        headings = re.findall(r"^#+ (.*)$", CLI if file == "cli" else TEXT, flags=re.M)
        known = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
        assert anchor in known
