"""YAML and TOML: documents and lists as rows, on request or where they look like records."""

import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.rows import BadRow, Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.interchange import yaml_toml
from tests.conftest import SURE

FAQ = [
    {"q": f"What is {n}?", "a": f"A number,\nnamed {n}: 'n'", "n": n, "w": 0.5} for n in range(9)
]


def read(
    path: Path, text: str, form: str | None = "yaml", **facts: str
) -> tuple[list[Json], list[BadRow]]:
    path.write_text(text)
    batches = list(open_source(str(path), SourceSpec(format=form, **facts)).batches())
    return [v for b in batches for v in b.values], [bad for b in batches for bad in b.bad]


@pytest.mark.parametrize("style", [True, False, None])
def test_what_pyyaml_wrote_reads_back(tmp_path: Path, style: bool | None) -> None:
    text = yaml.safe_dump(FAQ, default_flow_style=style, allow_unicode=True)
    assert read(tmp_path / "a.yaml", text) == (FAQ, [])
    assert read(tmp_path / "a.yaml", yaml.safe_dump({"items": FAQ}), root="items[*]") == (FAQ, [])
    assert read(tmp_path / "a.yaml", yaml.safe_dump(FAQ), root="$") == ([FAQ], [])
    assert read(tmp_path / "a.yaml", yaml.safe_dump_all(FAQ)) == (FAQ, [])  # documents


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    text = """a: [no, yes, off, 12:30:45, 2020-01-01, 007, 1_000, '1', 0x1F, 0o17, +5, -0.5e3, ~]
b: [true, False, null, .nan, -.inf, !!str 5, !!int 5, !!binary aGk=, 1e999, 12345678901234567890123]
<<: {a: 1, c: 2}
1: x
"""
    ((row,), bad) = read(tmp_path / "a.yaml", text)
    assert not bad
    assert row == {
        "a": [
            *("no", "yes", "off", "12:30:45", "2020-01-01", "007", "1_000", "1"),
            *(31, 15, 5, -500.0, None),
        ],
        "b": [True, False, None, None, None, "5", 5, "hi", "1e999", 12345678901234567890123],
        "1": "x",
        "c": 2,
    }
    (batch,) = open_source(str(tmp_path / "a.yaml"), SourceSpec(format="yaml")).batches()
    assert list(batch.non_finite) == [(0, 2)]


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ("{a: 1, a: 2}", "the key 'a' occurs twice"),
        ("{a: *nowhere}", "the alias *nowhere stands for nothing"),
        ("{a: &b [*b]}", "the alias *b stands for nothing"),
        ("{a: !Ref x}", "the tag !Ref is unknown"),
        ("{a: !!python/object:os.system [x]}", "python/object:os.system is unknown"),
        ("{? [1, 2] : 3}", "a key that is a list"),
        ("{<<: [1], a: 2}", "a merge"),
        ("{a: !!binary /w==}", "binary that is no text"),
        ("{a: " + "[" * 300 + "]" * 300 + "}", "nested more than 256 levels"),
    ],
)
def test_a_bad_element_is_a_bad_row(tmp_path: Path, element: str, said: str) -> None:
    values, (bad,) = read(tmp_path / "a.yaml", f"- {{a: 0}}\n- {element}\n- {{a: 2}}\n")
    assert values == [{"a": 0}, {"a": 2}]
    assert (bad.row, said in bad.detail) == (1, True), bad.detail


@pytest.mark.more
def test_aliases_are_bounded(tmp_path: Path) -> None:
    laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    values, (bad,) = read(tmp_path / "a.yaml", laughs)
    assert not values
    assert "aliases stand for more than 16 times its size" in bad.detail
    large = ", ".join(f"k{n}: 1" for n in range(20_000))
    values, broken = read(tmp_path / "a.yaml", f"- &a {{{large}}}\n" + "- {<<: *a}\n" * 1000)
    assert len(values) + len(broken) == 1001
    assert sum(map(len, values)) < 4_000_000  # all rows together are bounded


def test_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = tmp_path / "a.yaml", []
    path.write_text("- {a: 1}\n- {a: 2}\n- {a: [}\n")
    batches = open_source(str(path), SourceSpec(format="yaml")).batches()
    with pytest.raises(SourceError, match=r"no YAML: .{1,200}, at line 3"):
        found.extend(value for batch in batches for value in batch.values)
    assert found == [{"a": 1}, {"a": 2}]
    with pytest.raises(SourceError, match="no TOML"):
        read(tmp_path / "a.toml", "a = 1\na = 2\n", "toml")
    with pytest.raises(SourceError, match="no TOML that can be read: nested too deep"):
        read(tmp_path / "a.toml", "a = " + "[" * 5000, "toml")
    for key in ("a." * 500_000 + "a=1", "[" + '"a b" . ' * 100_000 + "a]"):
        with pytest.raises(SourceError, match="keys joined by dots"):
            read(tmp_path / "a.toml", key, "toml")
    monkeypatch.setitem(yaml_toml.MAX_DOCUMENT, "yaml", 1000)
    with pytest.raises(SourceError, match="YAML of more than 0 MiB, which is held whole"):
        read(path, "- a\n" * 400)


def test_toml(tmp_path: Path) -> None:
    text = "t = 1979-05-27T07:32:00Z\nd = 07:32:00\nn = [nan, inf, 9223372036854775807]\n"
    text += "".join(f'[[items]]\nq = "{n}"\n' for n in range(3))
    (row,), _ = read(tmp_path / "a.toml", text, "toml")
    assert row["items"] == tomllib.loads(text)["items"]
    assert [row["t"], row["d"], row["n"]] == [
        "1979-05-27T07:32:00+00:00",
        "07:32:00",
        [None, None, 9223372036854775807],
    ]
    source = open_source(str(tmp_path / "a.toml"), SourceSpec(format="toml"))
    assert [root.path for root in source.roots] == ["items[*]", "$"]
    assert read(tmp_path / "a.toml", text, "toml", root="items[*]")[0] == row["items"]


SETTINGS = {
    "settings.yaml": "a: 1\nb: {c: 2}\n",
    "tasks.yml": "- name: a\n  shell: x\n- name: b\n  copy: {a: b}\n- {include: c}\n- {debug: d}\n",
    "pyproject.toml": '[project]\nname = "x"\n' + "[[tool.x]]\na = 1\n" * 3,
}


def test_settings_are_never_data_and_records_are(tmp_path: Path) -> None:
    for name, text in SETTINGS.items():
        (tmp_path / name).write_text(text)
    for place in (tmp_path, tmp_path / "settings.yaml"):
        assert {file.facts.format for file in open_source(str(place)).files} == {"document"}
    (tmp_path / "faq.yaml").write_text(yaml.safe_dump(FAQ))
    assert [file.name for file in open_source(str(tmp_path)).files] == ["faq.yaml"]
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    assert [file.name for file in open_source(str(tmp_path)).files] == ["data.csv"]


def put_records(folder: Path, count: int, *, ending: str = "yaml") -> list[dict[str, str]]:
    folder.mkdir(exist_ok=True)
    rows = [{"q": f"What is {n}?", "a": f"A number, {n}."} for n in range(count)]
    for n, row in enumerate(rows):
        row.update({"note": "odd"} if n % 2 else {})
        mark = ": " if ending == "yaml" else " = "
        text = "".join(f'{key}{mark}"{value}"\n' for key, value in row.items())
        (folder / f"{n:03}.{ending}").write_text(text)
    return rows


def formats(place: Path) -> set[str]:
    return {file.facts.format for file in open_source(str(place)).files}


@pytest.mark.parametrize("ending", ["yaml", "toml"])
def test_many_files_of_one_mapping_are_rows(tmp_path: Path, ending: str) -> None:
    rows = put_records(tmp_path / "a", 40, ending=ending)
    (tmp_path / "a/README.md").write_text("# Read me\n")
    source = open_source(str(tmp_path / "a"))
    assert [value for batch in source.batches() for value in batch.values] == rows
    assert (source.guessed.format, source.roots[0].path) == (ending, "$")
    again = source.with_spec(SourceSpec(format=ending))
    assert [file.name for file in again.files] == [file.name for file in source.files]
    archive = shutil.make_archive(str(tmp_path / "b"), "zip", tmp_path / "a")
    assert formats(Path(archive)) == {ending}
    for number in range(41):  # settings beside documents
        (tmp_path / f"a/{number}.md").write_text("# One\n")
    assert formats(tmp_path / "a") == {"document"}
    (tmp_path / "a/x.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    assert formats(tmp_path / "a") == {"jsonl"}


def test_a_few_files_or_other_shapes_are_settings(tmp_path: Path) -> None:
    put_records(tmp_path / "few", 9)
    put_records(tmp_path / "some", 30)
    for number in range(15):
        text = f"key{number}: 1\nother{number}: 2\n"
        (tmp_path / f"some/{number}.yaml").write_text(text)
        (tmp_path / f"some/{number}-b.yaml").write_text(text)
    assert formats(tmp_path / "few") == formats(tmp_path / "some") == {"document"}


def test_a_record_beyond_the_head_is_like_the_others(tmp_path: Path) -> None:
    rows = put_records(tmp_path / "a", 12)
    large = "q: |\n" + "  words: of a long text\n" * 20_000 + "a: b\n"
    (tmp_path / "a/900.yaml").write_text(large.replace("q: |", "a: b\nq: |", 1)[: -len("a: b\n")])
    values = [one for batch in open_source(str(tmp_path)).batches() for one in batch.values]
    assert values[:-1] == rows
    assert len(values[-1]["q"]) > 256 << 10


@pytest.mark.more
def test_run_converts_a_folder_of_records(tmp_path: Path) -> None:
    put_records(tmp_path / "a", 40)
    out = tmp_path / "out"
    words = ["run", str(tmp_path / "a"), "--out", str(out), "--records", "jsonl", *SURE]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len((out / "records" / "part-00000.jsonl").read_text().splitlines()) == 40


def test_run_converts_yaml(tmp_path: Path) -> None:
    pairs = [{"question": f"What is {n} plus 1?", "answer": f"It is {n + 1}."} for n in range(40)]
    (tmp_path / "faq.yml").write_text(yaml.safe_dump(pairs))
    out = tmp_path / "out"
    words = ["run", str(tmp_path), "--out", str(out), "--records", "jsonl", *SURE]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "It is 40." in (out / "records" / "part-00000.jsonl").read_text()
