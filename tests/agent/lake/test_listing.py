"""What a lake makes of names below its folder that give no file."""

import os
from pathlib import Path

from ingot.agent.lake.file_scan import list_files
from ingot.agent.lake.lake_order import LakeOrder
from ingot.converters.sources.storage.listing import list_location


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
