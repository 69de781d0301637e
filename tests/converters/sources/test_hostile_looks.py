"""Looks of hostile texts: long runs of one sign cost their length, not its square."""

import pytest

from ingot.converters.sources.text_kinds import (
    count_words,
    is_code,
    is_question,
    is_time,
    text_looks,
)

RUNS = (
    "a", "1", "_", "a1", "\t", " ", "\n", "\n ", "(", "[", "<", "</", ")", "f(", "f(a", "a ",
    "a.", "@", "/", "?", "? ", "（ ", "(  ", "; ", "{", "=", "-", "中", "。", '"',
)  # fmt: skip


@pytest.mark.parametrize("unit", RUNS)
@pytest.mark.parametrize("size", [299, 50_000])
def test_runs_of_a_sign_are_looked_at_once(unit: str, size: int) -> None:
    text = f"x{(unit * size)[: size - 2]}!"
    assert not is_time(text)
    assert count_words(text) <= size
    assert {"url", "uuid", "time", "json"}.isdisjoint(text_looks(text))
    assert is_question(text) in (True, False)


@pytest.mark.parametrize("unit", ["a", "1", "_", " ", "中", "a ", "f(", "f(a ("])
def test_a_run_of_a_sign_is_no_code(unit: str) -> None:
    assert not is_code((unit * 50_000)[:50_000])


@pytest.mark.parametrize(
    "line", ["run_all(1, [x])", "x.y(z)", "é(a)", "total = " + "a + " * 99 + "f(1);"]
)
def test_a_line_of_code_is_code(line: str) -> None:
    assert is_code(line)
