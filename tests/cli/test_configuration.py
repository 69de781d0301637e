"""Options from variables and a named file: their order, what is refused, what doctor shows."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.cli.configuration import (
    command_flags,
    configured_values,
    every_command,
    unread_settings,
    variable_names,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
OTHER_VARIABLES = ("INGOT_HOME", "INGOT_STORAGE_RETRIES", "INGOT_STORAGE_TIMEOUT")
OTHER_VARIABLES += ("INGOT_SERVE_ROOT", "INGOT_PEERS", "INGOT_CONFIG", "INGOT_PROFILE")
OTHER_VARIABLES += ("INGOT_MCP_TOKEN",)
ROOT: Any = typer.main.get_command(app)
EVERY = every_command(ROOT)
COMMANDS = sorted(EVERY)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ingot.toml").touch()
    monkeypatch.setenv("INGOT_CONFIG", "ingot.toml")
    return tmp_path


def value(path: str, name: str, profile: str | None = None) -> Any:
    found = configured_values(EVERY[path], path, ROOT, profile=profile)
    return found[name].text if name in found else None


def ingot(*words: str) -> Any:
    return CliRunner().invoke(app, words)


LAYERS = (
    ("top level", 'records = "a"', {}),
    ("command table", '[convert]\nrecords = "b"', {}),
    ("profile", '[profile.p]\nrecords = "c"', {}),
    ("command table of a profile", '[profile.p.convert]\nrecords = "d"', {}),
    ("variable", "", {"INGOT_RECORDS": "e"}),
    ("variable of a command", "", {"INGOT_CONVERT_RECORDS": "f"}),
)


@pytest.mark.parametrize("strongest", range(len(LAYERS)), ids=[one[0] for one in LAYERS])
def test_the_strongest_layer_wins(strongest, folder, monkeypatch):
    for _, text, variables in LAYERS[: strongest + 1]:
        with (folder / "ingot.toml").open("a") as file:
            file.write(f"{text}\n")
        for name, word in variables.items():
            monkeypatch.setenv(name, word)
    profile = "p" if strongest >= 2 else None
    assert value("convert", "records", profile) == "abcdef"[strongest]
    if strongest < 2:
        assert value("run", "records") == "a"


@pytest.mark.more
def test_the_command_line_wins_over_all(folder, monkeypatch):
    (folder / "ingot.toml").write_text('out = "from_file"\nyes = true\nmin-confidence = 0.8\n')
    monkeypatch.setenv("INGOT_OUT", "from_variable")
    monkeypatch.setenv("INGOT_RUN_RECORDS", "jsonl")
    source = str(EXAMPLES / "zh_exam")
    assert ingot("run", source, "--out", "typed").exit_code == 0
    assert (folder / "typed/records/part-00000.jsonl").exists()
    assert ingot("convert", "typed/mapping.json", source).exit_code == 0
    assert (folder / "from_variable/records/part-00000.parquet").exists()
    assert not (folder / "from_file").exists()


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_of_every_command_has_its_variables(path, monkeypatch):
    command = EVERY[path]
    for flag, option in command_flags(command).items():
        names = variable_names(path, flag, option)
        assert names[0] == f"INGOT_{path}_{flag}".upper().replace("-", "_").replace(" ", "_")
        for name in reversed(names):
            monkeypatch.setenv(name, name)
            expected = [name] if option.multiple else name
            found = configured_values(command, path, ROOT)[option.name]
            assert (found.text, found.origin) == (expected, name)
        for name in names:
            monkeypatch.delenv(name)


def test_no_variable_means_two_things():
    own: set[str] = set()
    short: set[str] = set()
    for path, command in EVERY.items():
        for flag, option in command_flags(command).items():
            names = variable_names(path, flag, option)
            own.add(names[0])
            short.update(names[1:])
    assert own & short == set()
    assert (own | short) & set(OTHER_VARIABLES) == set()


def test_unknown_variables_are_ignored(monkeypatch):
    monkeypatch.setenv("INGOT_NO_SUCH_OPTION", "1")
    monkeypatch.setenv("INGOT_RECORDS", "")
    assert configured_values(EVERY["convert"], "convert", ROOT) == {}


def test_values_have_the_types_of_the_command_line(folder, monkeypatch):
    (folder / "ingot.toml").write_text(
        '[tokens.build]\ntext-cols = ["a", "b"]\nmax-tokens = 512\nloss-mask = false\n'
    )
    command = EVERY["tokens build"]
    given = ["--input-dir", ".", "--output-prefix", "x", "--tokenizer", "."]
    parent = typer.main.get_command(app).make_context("ingot", ["tokens"], resilient_parsing=True)
    group = parent.command.get_command(parent, "tokens")
    inner = group.make_context("tokens", ["build"], parent=parent, resilient_parsing=True)
    context = command.make_context("build", given, parent=inner)
    assert context.params["text_cols"] == "a,b"
    assert context.params["max_tokens"] == 512
    assert context.params["loss_mask"] is False
    repeated = [
        (path, one.name)
        for path, command in EVERY.items()
        for flag, one in command_flags(command).items()
        if one.multiple
    ]
    path, name = repeated[0]
    flag = next(f for f, one in command_flags(EVERY[path]).items() if one.name == name)
    monkeypatch.setenv(f"INGOT_{flag.upper().replace('-', '_')}", "one 'two three'")
    assert value(path, name) == ["one", "two three"]


WRONG = {
    "unknown option 'worker'; nearest: workers": "worker = 3",
    "[convert]: unknown option 'reccords'; nearest: records": '[convert]\nreccords = "x"',
    "no command convrt; nearest: convert": "[convrt]\nworkers = 1",
    "[tokens]: no command tokens biuld; nearest: tokens build": "[tokens.biuld]\nworkers = 1",
    "[tokens]: tokens is not a command: put workers": "[tokens]\nworkers = 1",
    "[profile.q] [lake.run]: unknown option 'x'": "[profile.q.lake.run]\nx = 1",
    "is not TOML": "a == 1",
    "profile is not a table of tables": 'profile = "night"',
    "is not a table of tables": "[profile]\nworkers = 1",
    "what api-key holds looks like a key": 'api-key = "x"',
    "what language holds looks like a key": f'language = "sk-{"a1B2" * 12}"',
    "what base-url holds looks like a key": 'base-url = "http://me:secret9@host"',
    "[profile.p]: unknown option 'presets'; nearest: preset": '[profile.p]\npresets = "openai"',
    "yes is neither a text": "[convert]\nyes = {a = 1}",
    "'--limit': Input should": "limit = -4",
}


@pytest.mark.parametrize("problem", WRONG)
def test_what_is_wrong_in_the_file_is_refused(problem, folder):
    (folder / "ingot.toml").write_text(WRONG[problem])
    profile = ["--profile", "p"] if "[profile.p]" in problem else []
    done = ingot(*profile, "convert", "mapping.json", "data", "--out", "x")
    assert done.exit_code == 2
    assert problem in done.stderr
    assert "ingot.toml" in done.stderr
    assert "secret9" not in done.stderr
    assert "a1B2" not in done.stderr


def test_a_named_file_may_name_the_endpoint(folder):
    (folder / "ours.toml").write_text('base-url = "http://host/v1"\n')
    command = EVERY["run"]
    found = configured_values(command, "run", ROOT, folder / "ours.toml")
    assert found["base_url"].text == "http://host/v1"


def test_missing_files_and_profiles_are_errors(folder, monkeypatch):
    assert ingot("--config", "no.toml", "doctor").exit_code == 2
    (folder / "ingot.toml").write_text("[profile.nights]\n")
    done = ingot("--profile", "night", "doctor")
    assert (done.exit_code, "nearest: nights" in done.stderr) == (2, True)
    monkeypatch.delenv("INGOT_CONFIG")
    done = ingot("--profile", "nights", "doctor")
    assert (done.exit_code, "name the file that holds it" in done.stderr) == (2, True)


@pytest.mark.parametrize("path", COMMANDS)
def test_no_command_obeys_a_file_that_happens_to_lie_there(path, folder, monkeypatch):
    flags = [flag for flag in command_flags(EVERY[path]) if flag != "config"]
    lines = [f'{flag} = "evil"' for flag in flags]
    (folder / "ingot.toml").write_text("\n".join(lines) + f"\n[{path.replace(' ', '.')}]\n")
    monkeypatch.delenv("INGOT_CONFIG")
    assert configured_values(EVERY[path], path, ROOT) == {}
    (note,) = unread_settings(path, None)
    assert "ingot.toml of this folder is not read" in note


def test_a_review_reads_no_file_even_if_it_is_named(folder, monkeypatch):
    (folder / "ingot.toml").write_text("offline = true\n[review]\nallow-breaking = true\n")
    review = EVERY["review"]
    assert configured_values(review, "review", ROOT, Path("ingot.toml"), "p") == {}
    (note,) = unread_settings("review", Path("ingot.toml"))
    assert note.startswith("ingot.toml is not read")
    monkeypatch.setenv("INGOT_REVIEW_ALLOW_BREAKING", "true")
    assert configured_values(review, "review", ROOT)["allow_breaking"].text == "true"


@pytest.mark.parametrize(
    ("path", "name", "link"),
    [
        ("ui", "INGOT_PORT", "tcp://10.0.0.1:80"),
        ("ui", "INGOT_UI_PORT", "udp://[fd00::1]:53"),
        ("convert", "INGOT_METRICS_PORT", "tcp://10.0.0.1:9464"),
        ("criteo preprocess", "INGOT_METRICS_PORT", "sctp://10.0.0.1:1"),
    ],
)
def test_a_service_of_the_cluster_sets_no_option(path, name, link, monkeypatch):
    monkeypatch.setenv(name, link)
    assert configured_values(EVERY[path], path, ROOT) == {}
    assert list(unread_settings(path, Path("ingot.toml"))) == [
        f"{name} is a service link of Kubernetes, which sets no option"
    ]
    monkeypatch.setenv(name, "8080")
    assert [one.text for one in configured_values(EVERY[path], path, ROOT).values()] == ["8080"]
    monkeypatch.setenv(name, "tcp://10.0.0.1")
    assert [one.origin for one in configured_values(EVERY[path], path, ROOT).values()] == [name]


def test_an_error_names_the_variable_and_not_a_flag_that_was_typed(monkeypatch):
    monkeypatch.setenv("INGOT_WORKERS", "x")
    words = ("convert", "mapping.json", "data", "--out", "x")
    assert "set in INGOT_WORKERS" in ingot(*words).stderr
    typed = ingot(*words, "--workers", "y")
    assert "'--workers'" in typed.stderr
    assert "INGOT_WORKERS" not in typed.stderr


ORIGINS = (
    ("convert m.json d --out x", "LANGUAGE", "klingon --out"),  # refused by a setting
    (
        "tokens build d --output-prefix p --tokenizer . --max-chars 3",
        "MIN_CHARS",
        "5",
    ),  # by a class
    ("monolith convert a b --from example --to example", "NEGATIVE_RATE", "3"),
    ("monolith convert a - --from example --to example", "JSON", "true"),  # by a command
    ("review a.json b.json", "BASE", "x"),
    ("chat d", "RESUME", "x"),
    ("lake run . --out x --share-values none", "PIN_SAMPLE", "true"),
    ("map d --share-values none", "PIN_SAMPLE", "true"),
    ("map d --share-values none --output x", "PIN_SAMPLE", "true"),
    ("run d --out x", "MAPPER", "llm"),
)


@pytest.mark.parametrize(("words", "name", "text"), ORIGINS)
def test_a_refused_setting_says_where_it_was_configured(words, name, text, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv(f"INGOT_{name}", text)
    done = ingot(*words.split())
    assert done.exit_code == 2
    assert f", set in INGOT_{name} (usage: ingot " in done.stderr


def test_an_option_that_a_message_only_quotes_is_not_where_a_value_was_configured(monkeypatch):
    monkeypatch.setenv("INGOT_WORKERS", "2")
    done = ingot("run", "d", "--out", "x", "--preset=--workers")
    assert done.stderr.startswith("error: no preset '--workers'; there are ")
    assert "set in" not in done.stderr


def test_help_reads_no_configuration(folder, monkeypatch):
    before = ingot("convert", "--help").stdout
    (folder / "ingot.toml").write_text("nonsense = 1\n")
    monkeypatch.setenv("INGOT_WORKERS", "3")
    assert ingot("convert", "--help").stdout == before


def test_doctor_shows_what_holds_and_no_secret(folder, monkeypatch):
    (folder / "ingot.toml").write_text('workers = 3\n[convert]\nworkers = 4\nlanguage = "de"\n')
    monkeypatch.setenv("INGOT_RUN_LANGUAGE", f"sk-{'a1B2' * 12}")
    done = ingot("doctor", "--json")
    checks = json.loads(done.stdout)["checks"]
    shown = [(c["name"], c["figure"]) for c in checks if c["group"] == "configuration"]
    assert ("workers", "4  from ingot.toml [convert], for convert") in shown
    assert any("INGOT_RUN_LANGUAGE" in figure for _, figure in shown)
    assert not any("INGOT_HOME" in figure for _, figure in shown)
    assert "a1B2" not in done.stdout
    (folder / "ingot.toml").write_text("[convert]\nworker = 4\n")
    done = ingot("doctor")
    assert done.exit_code == 2
    assert "[convert]: unknown option 'worker'; nearest: workers" in done.stderr


@pytest.mark.more
def test_parquet2mbt_has_the_variables_of_token_builds(folder):
    (folder / "ingot.toml").write_text("[tokens.build]\ndtype = 'nonsense'\n")
    code = "from ingot.__main__ import parquet2mbt; parquet2mbt()"
    given = ("--input-dir", ".", "--output-prefix", "x", "--tokenizer", ".")
    done = subprocess.run(
        [sys.executable, "-c", code, *given], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 2
    assert "set in ingot.toml [tokens.build]" in done.stderr
