"""The step of docs/export.md that joins two exports for LLaMA-Factory."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from ingot.converters.export.job import ExportOptions, export

DOCS = Path(__file__).resolve().parents[3] / "docs" / "export.md"


def joined(folder: Path) -> Path:
    """What the step makes of `chats-lf` and `held-lf` in a folder."""
    (step,) = re.findall(r"```sh\n(mkdir -p both\n.*?)```", DOCS.read_text(), re.DOTALL)
    command = step.replace("python -", f"{shlex.quote(sys.executable)} -")
    subprocess.run(["sh", "-ec", command], check=True, cwd=folder)
    return folder / "both"


def test_two_exports_are_joined_for_llamafactory(said, make_result, tmp_path):
    chats = make_result([said("user: a?", "assistant: A.")], name="chats")
    held = make_result([said("user: b?", "assistant: B.", "user: c?")], name="held")
    export(chats, "llamafactory", tmp_path / "chats-lf")
    test = export(held, "llamafactory", tmp_path / "held-lf", ExportOptions(split="test"))
    both = joined(tmp_path)
    entries = json.loads((both / "dataset_info.json").read_text())
    files = {name: (both / entry["file_name"]).resolve() for name, entry in entries.items()}
    assert files == {
        "chats": (chats / "records" / "part-00000.parquet").resolve(),
        "held_test": (tmp_path / "held-lf" / "data" / "test-00000.parquet").resolve(),
    }
    assert all(file.is_file() for file in files.values())
    assert "docs/export.md" in test.use[1]
