"""What lies in a folder, as the page offers it: files, folders, results, lakes, mappings."""

import os
from itertools import islice
from pathlib import Path

from ingot.agent.lake.lake_state import LakeState
from ingot.agent.ui.conversation_view import Facts
from ingot.converters.json_yaml import find_json

_MOST, _LOOKED_AT = 500, 20_000  # entries that are shown, and that are looked at
_MAPPING_BYTES = 1 << 20


def list_folder(folder: Path, root: Path) -> Facts:
    """List a folder below the root; hidden entries, and links that leave the root, are left out."""
    with os.scandir(folder) as entries:
        found = [one for one in islice(entries, _LOOKED_AT) if not one.name.startswith(".")]
    found = [one for one in found if root in Path(one.path).resolve().parents]
    found.sort(key=lambda one: (not one.is_dir(), one.name))
    place = str(folder.relative_to(root)) if folder != root else ""
    return {
        "path": place,
        "parent": None if folder == root else os.path.dirname(place),  # noqa: PTH120 - "" is the root
        "entries": [_describe_entry(one, root) for one in found[:_MOST]],
        "more": max(len(found) - _MOST, 0),
    }


def _describe_entry(entry: os.DirEntry[str], root: Path) -> Facts:
    path = Path(entry.path)
    kind = _folder_kind(path) if entry.is_dir() else _file_kind(path)
    return {
        "name": entry.name,
        "path": str(path.relative_to(root)),
        "kind": kind,
        "bytes": entry.stat().st_size if entry.is_file() else None,
    }


def _folder_kind(folder: Path) -> str:
    if LakeState(folder).folder.is_dir():
        return "lake"
    if folder.name.endswith(".proposal"):
        return "proposal"
    return "result" if (folder / "manifest.json").is_file() else "folder"


def _file_kind(file: Path) -> str:
    if file.suffix != ".json" or not file.is_file() or file.stat().st_size > _MAPPING_BYTES:
        return "file"
    document = find_json(file) or {}
    stated = document.get("version") == 2 and {"text", "messages", "any_of"} & document.keys()
    return "mapping" if stated else "file"
