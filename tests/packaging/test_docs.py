"""What the documents name exists: files, commands, options; and what exists is documented."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from ingot.agent.model.cache import FORM_LEVELS
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.request_form import RequestForm, request_body
from ingot.cli.app import app
from ingot.converters.errors import IngotError
from ingot.converters.mapping.bind import bind

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy/README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), DEPLOY])
WITH_COMMANDS = [ROOT / "README.md", DEPLOY, *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
CODE = re.compile(r"```.*?\n(.*?)```|^ {4}([^\n]*)$|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
INVOCATION = re.compile(r"(?<![\w./-])ingot +([a-z][\w-]*)( +[a-z][\w-]*)?([^\n|;&#]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


@cache
def commands() -> dict[str, Any]:
    """The commands by the words that call them; those of a group, not the group itself."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        children = getattr(command, "commands", {})
        for name in children:
            walk(command.get_command(None, name), (*words, name))
        if not children:
            found[" ".join(words)] = command

    walk(typer.main.get_command(app), ())
    return found


def options(command: Any) -> set[str]:
    """The long options of a command."""
    spelled = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    return {option for option in spelled if option.startswith("--")} | {"--help"}


def code(text: str) -> list[str]:
    """Return the code of a document: fenced and indented blocks, spans; continued lines joined."""
    return ["".join(groups) for groups in CODE.findall(text.replace("\\\n", " "))]


def invocations(text: str) -> list[tuple[str, set[str]]]:
    """Return every `ingot COMMAND ...` in the code of a document: the command, its long options."""
    return [
        (_called(first, second.strip()), set(OPTION.findall(rest)))
        for block in code(text)
        for first, second, rest in INVOCATION.findall(block)
    ]


def _called(first: str, second: str) -> str:
    """Return the command that two words call: one of a group, or one of one word."""
    both = f"{first} {second}"
    return both if both in commands() else first


def broken_links(text: str, folder: Path) -> list[str]:
    """Return the links of a document that lead to no file."""
    return [link for link in LINK.findall(text) if not (folder / link).exists()]


def unknown_invocations(text: str) -> list[str]:
    """Return the commands and options that a document names and that are not there."""
    unknown = []
    for name, named in invocations(text):
        if name not in commands():
            unknown.append(name)
        else:
            unknown += sorted(named - options(commands()[name]))
    return unknown


def undocumented_options(text: str, name: str) -> list[str]:
    """Return the options of a command that its section of the command list leaves out."""
    sections = re.split(r"^#+ ", text, flags=re.M)
    (section,) = (
        part for part in sections if part.startswith((f"`ingot {name}`", f"ingot {name}"))
    )
    return sorted(options(commands()[name]) - {"--help"} - set(OPTION.findall(section)))


def without_help(command: Any) -> list[str]:
    """Return the options of a command that have no help text."""
    return [p.name for p in command.params if p.param_type_name == "option" and not p.help]


def unknown_targets(text: str, makefile: str) -> set[str]:
    """Return the targets that the code of a document makes and a Makefile does not have."""
    named = {
        name for block in code(text) for name in re.findall(r"(?<![\w-])make ([a-z][\w-]*)", block)
    }
    return named - set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.M))


def parse_mappings(text: str, where: str) -> int:
    """Parse the mappings that a document shows; return how many there are."""
    blocks = map(json.loads, re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL))
    shown = [block for block in blocks if {"version", "text", "messages"} & set(block)]
    for mapping in shown:
        bind(mapping, None, where=where)
    return len(shown)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    assert broken_links(document.read_text("utf-8"), document.parent) == []


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_named_exist(document):
    assert unknown_invocations(document.read_text("utf-8")) == []


def test_the_command_list_names_every_command():
    named = {name for name, _ in invocations((ROOT / "docs/cli.md").read_text("utf-8"))}
    assert named >= set(commands())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_documented(name):
    assert undocumented_options((ROOT / "docs/cli.md").read_text("utf-8"), name) == []


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_has_a_help_text(name):
    assert without_help(commands()[name]) == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_documents_show_the_make_targets_that_exist(name):
    text, makefile = ((ROOT / file).read_text("utf-8") for file in (name, "Makefile"))
    assert unknown_targets(text, makefile) == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_mappings_shown_are_mappings(document):
    parse_mappings(document.read_text("utf-8"), document.name)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "there.md").touch()
    text = "[a](there.md) [b](gone.md#part) [c](https://example.com/x) [d](#part)"
    assert broken_links(text, tmp_path) == ["gone.md"]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("`ingot convert a b --out c`", []),
        ("`ingot melt a`", ["melt"]),
        ("```console\n$ ingot tokens build --input-dir a \\\n    --gone b\n```", ["--gone"]),
        ("    ingot run a --lost", ["--lost"]),
        ("The product ingot melts nothing.", []),
    ],
)
def test_a_command_or_option_that_is_gone_is_found(text, unknown):
    assert unknown_invocations(text) == unknown


def test_an_option_without_a_line_or_a_help_text_is_found():
    listed = " ".join(sorted(options(commands()["convert"]) - {"--out"}))
    assert undocumented_options(f"## `ingot convert`\n{listed}\n## Next\n--out", "convert") == [
        "--out"
    ]
    silent = [SimpleNamespace(name="a", param_type_name="option", help=None)]
    assert without_help(SimpleNamespace(params=silent)) == ["a"]


def test_a_make_target_that_is_gone_is_found():
    assert unknown_targets("`make test`, `make gone`; make sure", "test: a ## b\n") == {"gone"}


def test_a_mapping_that_is_none_is_found():
    assert parse_mappings('```json\n{"version": 2, "text": "a"}\n```', "a.md") == 1
    with pytest.raises(IngotError):
        parse_mappings('```json\n{"version": 2, "txt": "a"}\n```', "a.md")


def transcript() -> list[tuple[str, str]]:
    """The commands of the README's transcript, each with what it is said to print."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (session,) = re.findall(r"transcript:begin.*?```console\n(.*?)```", text, flags=re.DOTALL)
    return re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", session, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.more
def test_transcript_is_what_the_commands_print(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = {"ingot": [sys.executable, "-m", "ingot"], "head": ["head"]}
    for line, said in transcript():
        program, *arguments = shlex.split(line)
        command = [*programs[program], *arguments]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert run.stdout.replace(str(tmp_path), "/home/you/ingot") == said


INVENTED = re.compile(
    r"\b(side files?|call memory|second look|unified records?|tokens? not told|is told|are told"
    r"|settled? (?:it|in)|taken back|makes of|broken off|goes on behind)\b"
)


def test_endpoints_are_documented_as_the_code_asks_them():
    """The presets with their level, parameter and keys; the levels in the order of the ladder."""
    text = (ROOT / "docs/endpoints.md").read_text()
    rows = {row[0].strip("` "): row[1:] for row in re.findall(r"(?m)^\| (`\w+`) \| (.+)$", text)}
    presets = json.loads((ROOT / "agent/model/presets.json").read_text())
    for name, preset in presets.items():
        url, level, room, key = (cell.strip() for cell in rows[name][0].strip("| ").split(" | "))
        said = (preset["base_url"], preset["level"], preset["room"])
        assert (url.strip("`"), level.strip("`"), room.strip("`")) == said
        assert [one for one in preset["keys"] if one not in key] == []
    assert [name for name in rows if name in FORM_LEVELS] == list(FORM_LEVELS)
    form = RequestForm(level="json_schema", room=9)
    endpoint = Endpoint(model="m", base_url="http://localhost/v1", max_tokens=9)
    bodies = {
        level: request_body(replace(form, level=level), endpoint, [], {"type": "object"})
        for level in FORM_LEVELS
    }
    assert bodies["json_schema"]["response_format"]["json_schema"]["strict"] is True
    assert bodies["json_object"]["response_format"] == {"type": "json_object"}
    assert bodies["tool"]["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert bodies["tool"]["tool_choice"]["type"] == "function"
    assert not {"response_format", "tools"} & set(bodies["prompt"])


def unused_terms(glossary: str, pages: Iterable[str]) -> list[str]:
    """Return the terms of the glossary that no page uses."""
    text = " ".join(" ".join(page.split()) for page in pages).lower()
    terms = [term.strip().lower() for cell in _cells(glossary) for term in cell.split(",")]
    return [term for term in terms if term not in text]


def _cells(glossary: str) -> list[str]:
    return re.findall(r"^\| \*\*([^*(]+)", glossary, flags=re.M)


def test_glossary_lists_the_terms_of_the_documents():
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    pages = [page.read_text("utf-8") for page in WITH_COMMANDS if page.name != "glossary.md"]
    assert _cells(glossary) == sorted(_cells(glossary), key=str.lower)
    assert unused_terms(glossary, pages) == []


def test_documents_and_help_use_standard_terms():
    texts = {
        str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in WITH_COMMANDS
    }
    for name, command in commands().items():
        helps = (getattr(p, "help", None) or "" for p in command.params)
        texts[name] = " ".join([command.help or "", *helps])
    assert {n: found for n, text in texts.items() if (found := INVENTED.findall(text))} == {}


def test_an_unused_and_an_invented_term_are_found():
    glossary = "| **lake** | a |\n| **lost, Melt** | b |\n"
    assert unused_terms(glossary, ["A lake of\nmelted things."]) == ["lost"]
    assert INVENTED.findall("The second look is told what is taken back.") == [
        *("second look", "is told", "taken back")
    ]
