"""The folder of a pinned sample written whole or not at all; no other folder is ever replaced."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from ingot.agent.pinning.samples import ABOUT, about_of, files_of
from ingot.converters.commit import encode, sync, sync_tree, writing
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.exchange import exchange
from ingot.converters.rows import Json


def check_free(folder: Path, *, overwrite: bool) -> None:
    """See that a sample could be put there, before the work.

    Raises:
        OutputError: a sample is there and may not be replaced, or something that is none is there.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir() or not _ours(folder):
        problem = "is there already and is no pinned sample, or holds other files too"
        raise OutputError(str(folder), problem, "move it away, or choose another name")
    if not overwrite:
        problem = "is there already"
        raise OutputError(str(folder), problem, "choose another name, or: --overwrite")


def _ours(folder: Path) -> bool:
    """Whether a folder holds a pinned sample and nothing else."""
    try:
        about = about_of(folder)
        files = files_of(folder)
    except (SourceError, OSError):
        return False
    known = {folder / ABOUT, *(folder / name for name in about["stored"])}
    return known.issuperset(files)


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A hidden folder beside the destination, gone afterwards. Raises OutputError."""
    stage = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.tmp")
    with writing(folder):
        stage.mkdir(parents=True)
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def lay(stage: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write files below `stage/name`, in place of what was laid there; gives that folder.

    Raises:
        OutputError: they cannot be written.
    """
    top = stage / name
    with writing(top):
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        for path, data in files.items():
            file = top / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    return top


def put(stage: Path, about: dict[str, Json], folder: Path) -> None:
    """Give a finished stage the name of the destination; an old sample there is replaced.

    Raises:
        OutputError: it cannot be written; what was there is there still.
    """
    with writing(folder):
        (stage / ABOUT).write_bytes(encode(about, sort_keys=False))
        sync_tree(stage)
        if folder.exists() and not exchange(stage, folder):
            old = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.old")
            folder.rename(old)
            stage.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
        elif stage.exists() and not folder.exists():
            stage.rename(folder)
        sync(folder.parent)
