"""Framings by their names."""

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.frames.framing import FRAMINGS, Framing


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
def test_a_framing_is_its_text(framing: Framing) -> None:
    assert Framing.parse(str(framing)) == framing


def test_names_and_bits() -> None:
    assert str(Framing()) == "sort_id"
    assert Framing.parse(" kafka_dump , sort_id ") == Framing(kafka_dump=True)
    assert Framing.parse("none") == Framing(sort_id=False)
    assert [framing.bits for framing in FRAMINGS] == [1, 0, 8, 3, 2, 5, 4, 7, 6]
    assert len(set(FRAMINGS)) == 9


@pytest.mark.parametrize("text", ["", "sortid", "none,sort_id", "sort_id,,kafka_dump", "Sort_id"])
def test_what_is_no_framing_is_told(text: str) -> None:
    with pytest.raises(ConversionError, match="write parts of kafka_dump, kafka_dump_prefix"):
        Framing.parse(text)


@pytest.mark.parametrize("other", ["sort_id", "kafka_dump", "kafka_dump_prefix"])
def test_a_lagrangex_header_stands_alone(other: str) -> None:
    with pytest.raises(ConversionError, match="use lagrangex_header alone"):
        Framing.parse(f"lagrangex_header,{other}")
