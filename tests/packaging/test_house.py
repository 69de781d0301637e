"""The house stays as it was laid out: flat modules, packages, and numbers that only go down."""

import json

import pytest

from tests.packaging.house import RATCHET, ROOT, measure

NUMBERS = measure()


@pytest.mark.parametrize("name", sorted(json.loads(RATCHET.read_text("utf-8"))))
def test_numbers_only_go_down(name: str) -> None:
    assert NUMBERS[name] <= json.loads(RATCHET.read_text("utf-8"))[name]


@pytest.mark.parametrize(("folder", "most"), [("converters", 6), ("agent", 4)])
def test_few_modules_stand_beside_packages(folder: str, most: int) -> None:
    flat = [file.name for file in (ROOT / folder).glob("*.py") if file.name != "__init__.py"]
    assert len(flat) <= most, flat
