from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.lake.survey import data_set_name

PARTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("parts", "name"),
    [(("wiki",), "wiki"), (("wiki", "zh"), "wiki--zh"), (("数据", "v1.2"), "数据--v1.2")],
)
def test_plain_folders_can_be_read_from_the_name(parts, name):
    assert data_set_name(*parts) == name


@pytest.mark.parametrize(
    "part",
    [
        "..",
        ".",
        "",
        "a/b",
        "a--b",
        ".hidden",
        "-rf",
        "nul",
        "x.proposal",
        "x.json",
        "a\nb",
        "é" * 90,
    ],
)
def test_other_folders_get_a_hash(part):
    name = data_set_name(part)
    assert name != part
    assert data_set_name(part) == name


@pytest.mark.more
@given(PARTS, PARTS)
def test_different_parts_have_different_names(one, other):
    assert (data_set_name(*one) == data_set_name(*other)) == (one == other)


@given(PARTS)
def test_a_name_is_one_harmless_file_name(parts):
    name = data_set_name(*parts)
    assert Path(name).name == name
    assert name not in ("", ".", "..")
    assert not name.startswith((".", "-"))
    assert len(f".{name}.ingot-stage-0123456789abcdef".encode()) < 255
    assert all(c.isprintable() for c in name)
