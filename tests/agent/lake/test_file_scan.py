"""What a lake remembers of the files that it has looked into."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from ingot.agent.lake.file_scan import _seen_from_json, _seen_json
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
