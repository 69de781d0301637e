"""docs/monolith.md, its example and the commands of docs/cli.md: what is shown runs and is so."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.json_yaml import schema
from ingot.converters.recsys.monolith.contract import FEATURE_KINDS, REASONS
from ingot.converters.recsys.monolith.frames.framing import COMPRESSIONS, Framing
from ingot.converters.recsys.monolith.tables.column_plan import inferred_kind
from ingot.schemas.monolith import example_pb2, line_id_pb2

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parents[1] / "golden/monolith"
EXAMPLE = ROOT / "examples/monolith"
TEXT = (ROOT / "docs/monolith.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


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


def commands(text: str) -> list[str]:
    return re.findall(r"^    (ingot monolith .*?)(?: +#.*)?$", text, flags=re.M)


def run(command: str) -> str:
    done = CliRunner().invoke(app, shlex.split(command)[1:], env={"TERM": "dumb"})
    if " cat examples/monolith/feed.pb" in command and "--limit" not in command:
        assert done.exit_code == 1  # one of its batches is wrong
    else:
        assert done.exit_code in ((0, 5) if "--shard" in command else (0,)), done.output
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which every command that is shown has been run, in order."""
    root = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in ("feed.pb", "clicks.parquet", "clicks.yaml"):
            shutil.copy(EXAMPLE / name, root)
        (root / "streams").mkdir()
        shutil.copy(GOLDEN / "mono_example_sortid.pb", root / "streams")
        for command in commands(TEXT):
            run(command)
        yield root


def test_every_command_runs(place: Path) -> None:
    assert len(commands(TEXT)) == 11
    assert (place / "again.pb").stat().st_size > 10_000


def test_every_python_block_runs(place: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/monolith.md", "exec"), {})


def test_messages_have_the_fields_that_are_named() -> None:
    modules = (example_pb2, line_id_pb2)
    for cells in rows("Messages"):
        name = cells[0].strip("`")
        if name == "Instance":
            continue
        message = next(getattr(module, name) for module in modules if hasattr(module, name))
        fields = {one.name: one.number for one in message.DESCRIPTOR.fields}
        told = {field: int(number) for field, number in re.findall(r"`(\w+)` (\d+)", cells[1])}
        told = {field: number for field, number in told.items() if field.islower()}
        assert told == fields


def test_parts_of_a_frame_are_those_of_the_code() -> None:
    told = named("Streams")
    assert set(told) == set(Framing.__dataclass_fields__)
    for name in COMPRESSIONS:
        assert f"`{name}`" in part("Streams")


def test_reasons_are_those_of_the_code() -> None:
    assert named("Error handling") == list(REASONS)


def test_the_reject_that_is_shown_is_one(place: Path) -> None:
    (told,) = re.findall(r'`(\{"file".*?\})`', TEXT)
    assert (place / "rows.pb.rejects.jsonl").read_text().strip() == told


def test_columns_of_a_table(place: Path) -> None:
    names = pq.read_schema("rows.parquet").names
    assert {"__UID__", "__REQ_TIME__", "__SAMPLE_RATE__", "__ACTIONS__", "__LABEL__"} <= set(names)
    assert "__LINE_ID_REST__" in names
    for name in ("name", "kind", "id", "sorted_id", "null"):
        metadata = pq.read_schema("rows.parquet").field("f_tags").metadata
        assert f"monolith.{name}".encode() in metadata
        assert f"`monolith.{name}`" in TEXT


@pytest.mark.parametrize(
    ("kind", "becomes"),
    [
        (pa.uint64(), "fid_v2_list"),
        (pa.decimal128(20, 0), "fid_v2_list"),
        (pa.int8(), "int64_list"),
        (pa.float16(), "float_list"),
        (pa.float32(), "float_list"),
        (pa.float64(), "double_list"),
        (pa.string(), "bytes_list"),
        (pa.list_(pa.binary()), "bytes_list"),
        (pa.list_(pa.list_(pa.uint64())), "fid_v2_lists"),
        (pa.list_(pa.list_(pa.int32())), "int64_lists"),
    ],
)
def test_types_become_what_is_said(kind: pa.DataType, becomes: str) -> None:
    found = inferred_kind(kind, "v2")
    assert found is not None
    assert FEATURE_KINDS[found] == becomes
    assert f"`{becomes}`" in part("Tables from other programs")


def test_the_reviewed_file_is_the_examples(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    lines = (EXAMPLE / "clicks.yaml").read_text().splitlines()
    assert [line for line in shown.splitlines() if line not in lines] == []
    assert set(named("A reviewed file")) == set(schema("monolith_table")["properties"])


def test_keys_of_a_row(place: Path) -> None:
    keys = set(named("`ingot monolith cat`"))
    shown = run("ingot monolith cat feed.pb --limit 40 --json")
    for line in shown.splitlines():
        assert set(json.loads(line)) <= keys


def test_what_the_example_is_said_to_hold() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        told = json.loads(run("ingot monolith stats examples/monolith/feed.pb --json"))
    assert f"{told['rows']} rows" in README
    assert told["bad"]["reasons"] == {"batch_size": 1}
    assert f"{told['line_ids']['lacking']['sample_rate']} rows" in README


def test_the_example_is_what_its_script_makes(tmp_path: Path) -> None:
    found: dict[str, Any] = {"__name__": "made", "__file__": str(EXAMPLE / "make.py")}
    exec(compile((EXAMPLE / "make.py").read_text(), "make.py", "exec"), found)
    assert found["feed"]() == (EXAMPLE / "feed.pb").read_bytes()
    assert found["log"]().equals(pq.read_table(EXAMPLE / "clicks.parquet"))


def test_commands_of_the_example_run(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        for command in commands(README):
            run(command)
    assert {path.name for path in (tmp_path / "demo/monolith").iterdir()} >= {
        "rows.pb",
        "rows.pb.rejects.jsonl",
        "clicks.pb",
        "rows.parquet",
    }


@pytest.mark.parametrize("name", ["convert", "cat", "stats"])
def test_every_option_of_a_command_stands_in_cli_md(name: str) -> None:
    group: Any = get_command(app)
    command = group.get_command(None, "monolith").get_command(None, name)
    known = {
        word
        for one in command.params
        if one.param_type_name == "option" and one.name != "help"
        for word in [*one.opts, *one.secondary_opts]
    }
    shown = {word.split(" ")[0] for word in named(f"`ingot monolith {name}`", CLI)}
    assert shown == known
    assert f"    ingot monolith {name} " in CLI


def test_sections_that_are_linked_exist() -> None:
    for file, anchor in re.findall(r"\]\((?:(cli|monolith)\.md)?#([\w-]+)\)", TEXT):
        headings = re.findall(r"^#+ (.*)$", CLI if file == "cli" else TEXT, flags=re.M)
        known = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
        assert anchor in known
