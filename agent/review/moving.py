"""Which mapping that is new was which one that is gone."""

import json
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingot.agent.review.repository import renames
from ingot.agent.review.revisions import Side
from ingot.agent.review.sidecars import SIDECARS, ids
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A file: the mapping in it, None where it is none, and its bytes."""

    document: dict[str, Json] | None
    data: bytes


def moved(
    gone: Mapping[str, Form], come: Mapping[str, Form], base: Side, head: Side
) -> dict[str, str]:
    """New path -> old path.

    By what the mappings say, however the files are laid out; by the files where one is no mapping;
    then by a sample or golden rows that moved along as they were.

    Args:
        gone: mappings that are gone, by path.
        come: files that are new, by path.
        base: the side of those that are gone.
        head: the side of those that are new.

    Raises:
        RevisionError: git cannot compare them.
    """
    said = {path: one for path, one in come.items() if one.document is not None}
    found = _alike(gone, said, _laid_out)
    found |= _alike(_without(gone, found.values()), _without(come, found), _bytes)
    left = _without(gone, found.values()), _without(come, found)
    return found | _along(base, head, *map(sorted, left))


def _without(files: Mapping[str, Form], paths: Collection[str]) -> dict[str, Form]:
    return {path: one for path, one in files.items() if path not in paths}


def _alike(
    gone: Mapping[str, Form], come: Mapping[str, Form], spelt: Callable[[Form], bytes]
) -> dict[str, str]:
    before, after = ({path: spelt(one) for path, one in side.items()} for side in (gone, come))
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        return renames(Path(folder), before, after)


def _laid_out(form: Form) -> bytes:
    return json.dumps(form.document, indent=1, sort_keys=True).encode()


def _bytes(form: Form) -> bytes:
    return form.data


def _along(base: Side, head: Side, gone: Sequence[str], come: Sequence[str]) -> dict[str, str]:
    """New path -> old path of the mappings beside which something moved as it was."""
    found: dict[str, str] = {}
    for name in SIDECARS:
        before = {path: ids(base, path, name) for path in gone if path not in found.values()}
        for path in come:
            now = ids(head, path, name) if path not in found else {}
            was = next((one for one, there in before.items() if now and there == now), None)
            if was is not None:
                found[path] = was
                del before[was]
    return found
