"""Where an export may lie, and what its data set is called."""

import json
from pathlib import Path

from ingot.converters.assemble import tokens_name
from ingot.converters.commit import MANIFEST, check_usable
from ingot.converters.errors import OutputError


def check_place(folder: Path, out: Path) -> None:
    """Keep the result out of harm's way, whatever `--overwrite` says.

    Raises:
        OutputError: the destination cannot be an export of the result in `folder`.
    """
    ours, theirs = out.resolve(), folder.resolve()
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
        raise OutputError(str(out), "is not apart from the result", "choose another folder")
    if not is_plain(str(ours)):
        problem = "lies where trainers cannot find it: `datasets` takes its path for a pattern"
        raise OutputError(str(out), problem, "choose a path without * ? [ and ::")
    check_usable(out)
    if _is_other_result(out):
        raise OutputError(str(out), "holds a result that is no export", "choose another folder")


def safe_name(text: str) -> str:
    """A name that every trainer's config can spell: it begins with a letter or a digit."""
    return tokens_name(tokens_name(text).lstrip("-_."))


def is_plain(path: str) -> bool:
    """Whether a config may name a path: `datasets` takes it for a pattern or a URL else."""
    return path.isprintable() and not any(odd in path for odd in (*"*?[", "::"))


def _is_other_result(out: Path) -> bool:
    """Whether a folder of ingot's, whole or damaged, is something else than an export."""
    try:
        manifest = json.loads((out / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    return "trainer" not in manifest
