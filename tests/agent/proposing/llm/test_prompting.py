"""Prompt files: front matter, variables, filling in."""

import re
from importlib import resources
from typing import Any

import pytest

from ingot.agent.model.budget import estimate_tokens
from ingot.agent.proposing.llm.lowering import lower_reply
from ingot.agent.proposing.llm.question import Prompt, load_prompt, prompts_hash
from ingot.agent.proposing.llm.reply import read_reply
from ingot.converters import json_yaml


def test_a_prompt_is_filled_in_one_pass() -> None:
    made = Prompt(text="To <<who>>: <<what>>, <<who>>!\n", sha256="")
    # What stands inside a value is data: it is not filled in again.
    assert made.render(who="<<what>>", what="\\1") == "To <<what>>: \\1, <<what>>!\n"
    with pytest.raises(KeyError, match="what"):
        made.render(who="you")


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("task", ()),
        ("task_small", ()),
        ("question", ("mode", "language", "fence", "data")),
        ("correction", ("fence", "data")),
        ("second_look", ("fence", "data")),
    ],
)
def test_the_prompts_that_ship(name: str, variables: tuple[str, ...]) -> None:
    content = (resources.files("ingot.prompts") / f"{name}.md").read_text(encoding="utf-8")
    _, front, text = content.split("---\n", 2)
    keys = dict(line.split(":", 1) for line in front.splitlines())
    assert list(keys) == ["name", "purpose", "variables"]
    assert (keys["name"].strip(), keys["variables"].strip()) == (name, ", ".join(variables))
    assert tuple(dict.fromkeys(re.findall("<<([a-z_]+)>>", text))) == variables
    assert load_prompt(name).text == text.strip() + "\n"


def test_every_prompt_file_is_one_that_ships() -> None:
    files = {file.name for file in resources.files("ingot.prompts").iterdir()}
    assert {name.removesuffix(".md") for name in files if name.endswith(".md")} == {
        "task",
        "task_small",
        "question",
        "correction",
        "second_look",
        "chat",
        "chat_small",
        "chat_data",
        "chat_turn",
        "chat_again",
    }


@pytest.mark.parametrize("name", ["task", "task_small"])
def test_the_example_in_a_task_is_a_valid_reply(name: str) -> None:
    example = load_prompt(name).text.strip().splitlines()[-1]
    document = lower_reply(read_reply(example.removeprefix("Example: ")).document)
    assert json_yaml.violations("mapping", document) == []


@pytest.mark.parametrize(("name", "most"), [("task_small", 1100), ("task", 5700)])
def test_the_fixed_part_leaves_room_for_data(name: str, most: int) -> None:
    assert estimate_tokens(load_prompt(name).text) <= most


@pytest.mark.parametrize("name", ["task", "task_small"])
def test_a_task_names_every_key_and_word_of_the_schema(name: str) -> None:
    text = load_prompt(name).text
    schema = json_yaml.schema("llm")
    words = _words(schema) - {"not_in", "min_chars", "max_chars", "pt", "sft"}
    assert not [word for word in words if word not in text]


@pytest.mark.parametrize("name", ["task", "task_small"])
@pytest.mark.parametrize(
    "said",
    [
        "@file",
        "^.^",
        "irrelevant",
        "unmappable",
        "begins",
        "notice",
        "Observation:",
        "the reference|or reference",
    ],
)
def test_a_task_says_the_rules_that_readers_miss(name: str, said: str) -> None:
    """Files as groups, fields around, repeated titles, constant notices, several answers."""
    assert any(word in load_prompt(name).text for word in said.split("|"))


def _words(schema: Any) -> set[str]:
    """Names of properties and values of enums, at any depth."""
    if isinstance(schema, list):
        return {word for one in schema for word in _words(one)}
    if not isinstance(schema, dict):
        return set()
    own = {*schema.get("properties", ()), *schema.get("enum", ())}
    return {str(word) for word in own} | {word for one in schema.values() for word in _words(one)}


def test_the_hash_changes_with_the_files_that_it_covers() -> None:
    assert prompts_hash("task") != prompts_hash("task", "question")
    assert prompts_hash("task") == prompts_hash("task")
