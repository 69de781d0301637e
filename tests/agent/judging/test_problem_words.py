"""Each problem of a mapping is said once, in plain words, with the command that solves it."""

from typing import Any

import pytest

from ingot.agent.judging.problem_words import explain_problem, told_problems
from ingot.agent.privacy import Redactor
from ingot.agent.privacy import SafeProblem as Safe
from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import read_tree

TALK: dict[str, Any] = {
    "version": 2,
    "messages": [
        {"each": "turns[*]", "role": {"path": "by.role", "map": {"bot": "user"}}, "content": "t"}
    ],
}
PAIR: dict[str, Any] = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": ["a", {"path": "calls", "as": "json"}]},
    ],
    "meta": {"original_id": "idd"},
}
VARIANTS = {"version": 2, "any_of": [{"messages": TALK["messages"]}, {"text": "t"}]}
ROLE = "/messages/0/role/path"


def unmapped(*values: tuple[str, int], pointer: str = ROLE) -> Problem:
    return Problem(pointer, "unmapped_value", "a value", "?", path="by.role", values=values)


def nowhere(pointer: str, got: str, nearest: str | None = None) -> Problem:
    return Problem(pointer, "unresolved_path", "a path", got, nearest, path=got)


def no_text(pointer: str, path: str, found: str) -> Problem:
    return Problem(pointer, "not_text", "text", found, path=path, values=((found, 3),))


@pytest.mark.parametrize(
    ("problem", "mapping", "words", "command"),
    [
        (
            unmapped(("end-user", 200), ("agent", 793)),
            TALK,
            "by.role has 'end-user' (200), 'agent' (793) without a role.",
            "role end-user user",
        ),
        (
            unmapped(("Ann B", 2)),
            TALK,
            "by.role has 'Ann B' (2) without a role.",
            'role "Ann B" user|assistant|system|tool|drop',
        ),
        (
            unmapped(("null", 4)),
            TALK,
            "by.role has 'null' (4) without a role.",
            "drop message where by.role is null",
        ),
        (unmapped(("x", 4)), VARIANTS, "", ""),
        (
            unmapped(("x", 4), pointer="/meta/language"),
            PAIR,
            "by.role has 'x' (4), for which `map` has nothing.",
            "",
        ),
        (
            nowhere("/messages/1/content/0", "a", "answer"),
            PAIR,
            "No sampled row has a. Did you mean answer?",
            "set assistant answer,calls as json",
        ),
        (nowhere("/meta/original_id", "idd", "id"), PAIR, "", "set original_id id"),
        (nowhere("/messages/0/content", "q"), PAIR, "No sampled row has q.", ""),
        (nowhere("/messages/0/each", "turnz", "turns"), TALK, "", ""),
        (
            no_text("/messages/0/content", "q", '[{"a": 1}]'),
            PAIR,
            "q holds a list or an object where a text is needed.",
            "set user q as json",
        ),
        (no_text("/messages/0/content", "q", '["a", "b"]'), PAIR, "", "set user q[*]"),
        (
            no_text("/any_of/0/messages/0/content", "q", "{}"),
            {"version": 2, "any_of": [{"messages": PAIR["messages"]}, {"text": "t"}]},
            "",
            "set alternative 1 user q as json",
        ),
        (
            Problem("", "no_records", "one", "?", values=(("no_assistant", 4),)),
            {"version": 2, "messages": [{"role": "user", "content": "q"}]},
            "No sampled row gives a record: no message of the assistant (4).",
            "set assistant FIELD",
        ),
        (Problem("/x", "schema", "a text", "5"), {}, "This needs a text, not 5.", ""),
        (Problem("/meta/source", "constant_meta", "a", "b"), PAIR, "", "set source none"),
    ],
)
def test_a_problem_is_said_in_words(
    problem: Problem, mapping: dict[str, Any], words: str, command: str
) -> None:
    told = explain_problem(problem, read_tree(mapping))
    assert told.words == (words or told.words)
    assert told.words
    assert told.command == command
    assert f"({problem.pointer or '/'}: {problem.code})" in str(told)
    assert told.typed == told.words + (f" Type: {command}" if command else "")
    assert told.detail == problem.detail


def outcome(code: str, *values: tuple[str, int]) -> Safe:
    return Safe(Problem("", code, "more", "0 %", values=values))


def test_what_another_problem_explains_is_not_told() -> None:
    cause = Safe(no_text("/text", "a", "{}"))
    few, none = outcome("coverage", ("not_text", 3)), outcome("no_records", ("not_text", 3))
    assert told_problems([cause, few, none]) == [cause]
    other = outcome("no_records", ("not_text", 3), ("no_assistant", 5))
    assert told_problems([cause, few, other]) == [cause, other]
    assert told_problems([few]) == [few]
    assert told_problems([Safe(nowhere("/meta/source", "s")), few])[1:] == [few]


def test_a_command_with_a_secret_is_not_given() -> None:
    told = Redactor("redacted").problem(
        explain_problem(unmapped(("ann@example.org", 3)), read_tree(TALK))
    )
    assert "ann@" not in str(told)
    assert told.command == ""
