"""Settings that are declared as annotated fields of a dataclass."""

from dataclasses import MISSING, dataclass, field
from typing import Annotated, Literal

from ingot.converters.settings import Setting, is_settings_class, limit_problems, list_settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    seed: Annotated[int, Setting("Seed of the draw.", metavar="N", minimum=0)]
    mode: Annotated[Literal["a", "b"], Setting("What to do.")] = "a"
    ratio: Annotated[float | None, Setting("Share of rows.", minimum=0.0, maximum=1.0)] = None
    names: Annotated[tuple[str, ...], Setting("Columns.")] = field(default_factory=lambda: ("x",))
    for_python_only: int = 3


def test_settings_are_listed_with_type_default_and_description() -> None:
    listed = list_settings(Example)
    assert [one.name for one in listed] == ["seed", "mode", "ratio", "names"]
    assert [one.default for one in listed] == [MISSING, "a", None, ("x",)]
    assert listed[1].type == Literal["a", "b"]
    assert listed[0].setting.metavar == "N"


def test_only_dataclasses_with_settings_are_settings_classes() -> None:
    assert is_settings_class(Example)
    assert not is_settings_class(Setting)
    assert not is_settings_class(int)
    assert not is_settings_class(Example(seed=1))


def test_limits_are_checked_with_a_sentence_for_each_problem() -> None:
    assert limit_problems(Example(seed=0, ratio=1.0)) == []
    assert limit_problems(Example(seed=-1, ratio=1.5)) == [
        "`seed` takes 0 or more, not -1",
        "`ratio` takes 1.0 or less, not 1.5",
    ]
