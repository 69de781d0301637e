"""What the documents name exists: files, commands, options; and what exists is documented."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ingot.agent.model.cache import FORM_LEVELS
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.request_form import RequestForm, request_body
from ingot.cli.app import app
from ingot.converters.mapping.bind import parse

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


def code(document: Path) -> list[str]:
    """The code of a document: fenced blocks, indented blocks, spans; continued lines joined."""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    return ["".join(groups) for groups in CODE.findall(text)]


def invocations(document: Path) -> list[tuple[str, set[str]]]:
    """Every `ingot COMMAND ...` in the code of a document: the command and its long options."""
    return [
        (_called(first, second.strip()), set(OPTION.findall(rest)))
        for block in code(document)
        for first, second, rest in INVOCATION.findall(block)
    ]


def _called(first: str, second: str) -> str:
    """The command that two words call: a command of a group, or one of one word."""
    both = f"{first} {second}"
    return both if both in commands() else first


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_named_exist(document):
    known = commands()
    unknown = [
        (name, sorted(named - options(known[name])) if name in known else "no such command")
        for name, named in invocations(document)
        if name not in known or named - options(known[name])
    ]
    assert unknown == []


def test_the_command_list_names_every_command():
    assert {name for name, _ in invocations(ROOT / "docs/cli.md")} >= set(commands())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_documented(name):
    section = re.split(r"^#+ ", (ROOT / "docs/cli.md").read_text(encoding="utf-8"), flags=re.M)
    (text,) = (part for part in section if part.startswith((f"`ingot {name}`", f"ingot {name}")))
    assert sorted(options(commands()[name]) - {"--help"} - set(OPTION.findall(text))) == []


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_has_a_help_text(name):
    params = commands()[name].params
    assert [p.name for p in params if p.param_type_name == "option" and not p.help] == []


def test_readme_shows_the_make_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.M))
    named = {
        target
        for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
        for block in code(document)
        for target in re.findall(r"(?<![\w-])make ([a-z][\w-]*)", block)
    }
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_mappings_shown_are_mappings(document):
    blocks = re.findall(r"```json\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for block in blocks:
        shown = json.loads(block)
        if {"version", "text", "messages"} & set(shown):
            parse(shown, where=document.name)


def transcript() -> list[tuple[str, str]]:
    """The commands of the README's transcript, each with what it is said to print."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (session,) = re.findall(r"transcript:begin.*?```console\n(.*?)```", text, flags=re.DOTALL)
    return re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", session, flags=re.DOTALL | re.MULTILINE)


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


def test_glossary_lists_the_terms_of_the_documents():
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    pages = [page for page in WITH_COMMANDS if page.name != "glossary.md"]
    text = " ".join(" ".join(page.read_text(encoding="utf-8").split()) for page in pages).lower()
    named = re.findall(r"^\| \*\*([^*(]+)", glossary, flags=re.M)
    assert named == sorted(named, key=str.lower)
    terms = [term.strip().lower() for cell in named for term in cell.split(",")]
    assert [term for term in terms if term not in text] == []


def test_documents_and_help_use_standard_terms():
    texts = {
        str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in WITH_COMMANDS
    }
    for name, command in commands().items():
        helps = (getattr(p, "help", None) or "" for p in command.params)
        texts[name] = " ".join([command.help or "", *helps])
    assert {n: found for n, text in texts.items() if (found := INVENTED.findall(text))} == {}
