"""Prompt files: front matter, variables, filling in."""

import pytest

from ingot.agent.prompting import parse_prompt, prompt, prompts_hash

FRONT = "---\nname: hello\npurpose: greets\nvariables: who, what\n---\n\n"
GOOD = FRONT + "To <<who>>: <<what>>, <<who>>!\n"


def test_a_prompt_is_filled_in_one_pass() -> None:
    made = parse_prompt(GOOD, where="hello.md")
    assert (made.name, made.purpose, made.variables) == ("hello", "greets", ("who", "what"))
    # What stands inside a value is data: it is not filled in again.
    assert made.render(who="<<what>>", what="\\1") == "To <<what>>: \\1, <<what>>!\n"


def test_variables_without_value_and_values_without_variable() -> None:
    made = parse_prompt(GOOD, where="hello.md")
    with pytest.raises(ValueError, match="missing or unknown variables: what"):
        made.render(who="you")
    with pytest.raises(ValueError, match="missing or unknown variables: whom"):
        made.render(who="you", what="hi", whom="x")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("just text", "opens with front matter"),
        (GOOD.replace("purpose", "porpoise"), "porpoise"),
        (GOOD.replace("purpose: greets\n", ""), "lacks purpose"),
        (GOOD.replace("purpose: greets", "name: again"), "name: again"),
        (GOOD.replace("who, what", "who"), "variables says"),
        (GOOD.replace("who, what", "who, what, when"), "variables says"),
        (GOOD.replace("purpose: greets", "purpose"), "purpose"),
    ],
)
def test_a_wrong_prompt_file_is_refused(content: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_prompt(content, where="hello.md")


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("map", ("schema",)),
        ("dataset", ("mode", "language", "fence", "data")),
        ("repair", ("problems", "paths")),
    ],
)
def test_the_prompts_that_ship(name: str, variables: tuple[str, ...]) -> None:
    made = prompt(name)
    assert (made.name, made.variables) == (name, variables)


def test_the_example_in_the_prompt_is_a_valid_reply() -> None:
    from ingot.agent.mappers.lowering import lower
    from ingot.agent.mappers.reply import read
    from ingot.converters import contracts

    example = prompt("map").text.strip().splitlines()[-1]
    document = lower(read(example))
    assert contracts.violations("mapping", document) == []


def test_the_hash_changes_with_the_files_that_it_covers() -> None:
    assert prompts_hash("map") != prompts_hash("map", "dataset")
    assert prompts_hash("map") == prompts_hash("map")
