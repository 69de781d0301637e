"""What a lake remembers of the files that it has looked into."""

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from ingot.agent.lake.file_scan import _seen_from_json, _seen_json, list_files
from ingot.agent.lake.lake_order import LakeOrder
from ingot.converters.lake.survey import SeenFile
from ingot.converters.sources.facts import SourceFile, input_entry
from ingot.converters.sources.source import inspect_entry
from ingot.converters.sources.storage.listing import list_location
from tests.attack.kinds import ALL_FILES


def _zipped(kind: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"inner/{ALL_FILES[kind][0]}", ALL_FILES[kind][1]())
    return out.getvalue()


FILES = {
    **ALL_FILES,
    **{f"zipped_{kind}": ("s.zip", lambda kind=kind: _zipped(kind)) for kind in ("xlsx", "sqlite")},
}


@pytest.mark.parametrize("kind", FILES)
def test_what_comes_back_from_the_stored_scan_is_what_was_found(tmp_path: Path, kind: str) -> None:
    name, make = FILES[kind]
    (tmp_path / "lang=en").mkdir()
    (tmp_path / "lang=en" / name).write_bytes(make())
    (entry,) = list_location(str(tmp_path)).entries
    seen = SeenFile(entry=entry, looked=inspect_entry(entry, direct=False, head=1 << 20))
    again = _seen_from_json(entry, json.loads(json.dumps(_seen_json(seen))))
    assert again.looked.files == seen.looked.files
    assert [*map(hash, again.looked.files)] == [*map(hash, seen.looked.files)]
    assert again.looked.files or again.looked.left_out
    for file in again.looked.files:
        assert isinstance(file, SourceFile)
        assert len(input_entry(file)["sha256"]) == 64


def test_a_link_that_leads_nowhere_is_a_lost_file_and_a_pipe_is_none(tmp_path: Path) -> None:
    root, out = tmp_path / "lake", tmp_path / "out"
    root.mkdir()
    (root / "a.jsonl").write_text("{}\n")
    for name in ("b.jsonl", "README.md", "folder"):
        (root / name).symlink_to(root / "nowhere")
    os.mkfifo(root / "c.jsonl")
    links = {one.name: one.dangling for one in list_location(str(root), whole=False).unreadable}
    assert links == {"README.md": True, "b.jsonl": True, "c.jsonl": False, "folder": True}
    order = LakeOrder(root=str(root), out=out, mappings=out / "mappings", mapper="rules", yes=True)
    listing = list_files(order)
    assert [entry.name for entry in listing.entries] == ["a.jsonl"]
    assert [(one.entry.name, one.fault) for one in listing.lost] == [
        ("b.jsonl", "a link that leads nowhere")
    ]
    assert [(one.name, one.why) for one in listing.left_out] == [
        ("README.md", "a link that leads nowhere"),
        ("c.jsonl", "neither a file nor a folder"),
        ("folder", "a link that leads nowhere"),
    ]
