"""The faults of benchmarks/planted_faults.py can be planted, and what notices them is there."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "benchmarks/planted_faults.py"))
FAULTS = SCRIPT["FAULTS"]


def test_there_are_forty_over_all_families() -> None:
    assert len(FAULTS) >= 40
    families = {"/".join(one.file.split("/")[:2]) for one in FAULTS}
    assert {
        f"converters/{name}" for name in ("sources", "mapping", "output", "megatron")
    } < families
    assert {"converters/recsys", "converters/lake", "converters/export"} < families
    assert {f"agent/{name}" for name in ("proposing", "judging", "privacy", "model")} < families


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: f"{one.file} {one.right.strip()[:40]}")
def test_a_fault_can_be_planted(fault: Any, tmp_path: Path) -> None:
    text = (ROOT / fault.file).read_text("utf-8")
    (tmp_path / fault.file).parent.mkdir(parents=True)
    (tmp_path / fault.file).write_text(text, "utf-8")
    SCRIPT["plant"](fault, tmp_path)
    changed = (tmp_path / fault.file).read_text("utf-8")
    assert changed != text
    compile(changed, fault.file, "exec")
    assert all((ROOT / tests).exists() for tests in fault.tests)


def test_a_line_that_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "converters").mkdir()
    (tmp_path / "converters/paths.py").write_text("x = 1\n")
    fault = next(one for one in FAULTS if one.file == "converters/paths.py")
    with pytest.raises(SystemExit, match="stands there 0 times"):
        SCRIPT["plant"](fault, tmp_path)
