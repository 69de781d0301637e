"""A folder appears whole or not at all.

A result is put together in a hidden sibling of its destination, on the same file system, and takes
its name in one rename. For a destination `DIR/name` the siblings are

    DIR/.name.ingot-lock         held while a run writes into the destination
    DIR/.name.ingot-stage-KEY/   one unfinished run: finished shards, and the result to be
    DIR/.name.ingot-old/         the result that is being replaced, between two renames
    DIR/.name.ingot-trash-*/     on its way out

`KEY` stands for input, mapping, options and version, so a run that was killed is taken up by the
next equal run. What another input, mapping or option left behind is removed by the next run into
the same destination, which says so. Replacing is one exchange of names; where the system has none
it goes: old aside, new in, old deleted, and a crash in between is finished by the next run.
"""

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.exchange import exchange
from ingot.converters.rows import Json

MANIFEST = "manifest.json"
RUN = "run.json"

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again, "
    "finished parts are kept",
    errno.EDQUOT: "the disk quota is used up: free some space and run the same command again, "
    "finished parts are kept",
    errno.EACCES: "choose a destination that you may write to",
    errno.EPERM: "choose a destination that you may write to",
    errno.EROFS: "the file system is read-only: choose another destination",
    errno.ENOTDIR: "a part of the path is a file: choose another destination",
    errno.EEXIST: "a part of the path is a file: choose another destination",
    errno.EBUSY: "the destination is a mount point: choose a folder inside it",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def writing(where: Path | str) -> Iterator[None]:
    """Translate what the operating system says while `where` is written.

    Raises:
        OutputError: disk full, no permission, read-only file system, ...
    """
    try:
        yield
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise OutputError(str(where), problem, _HINTS.get(error.errno or 0, "")) from error


def encode(document: Json, *, sort_keys: bool = True) -> bytes:
    """A JSON document as the files of a result hold it: sorted keys, indented, UTF-8.

    What UTF-8 cannot hold (a byte of a file's name that is no text) is escaped as JSON allows.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=sort_keys, allow_nan=False)
    return f"{text}\n".encode(errors="backslashreplace")


def sync(path: Path) -> None:
    """Wait until a file's content or a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder; their renames are durable by themselves.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder under `folder`, the folder itself last."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(root, name))
        sync(Path(root))


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")
    try:
        unfinished.write_bytes(content)
        sync(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A committed result: its folder, its manifest and its run.json (empty where that is gone)."""

    folder: Path
    manifest: dict[str, Json]
    run: dict[str, Json]


def _load(path: Path) -> dict[str, Json] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _own(folder: Path) -> dict[str, Json] | None:
    """The manifest of a folder that ingot wrote, damaged or not."""
    manifest = _load(folder / MANIFEST)
    versions = manifest.get("versions") if manifest else None
    return manifest if isinstance(versions, dict) and "ingot" in versions else None


def _has_all(folder: Path, manifest: dict[str, Json]) -> bool:
    try:
        return all((folder / f["path"]).stat().st_size == f["bytes"] for f in manifest["files"])
    except (OSError, KeyError, TypeError):
        return False


def finished(folder: Path) -> Finished | None:
    """The finished result in a folder; None if there is none or a file of it is gone or cut.

    Files are checked by presence and size; `sha256sum` against the manifest is the thorough check.
    """
    manifest = _own(folder)
    if manifest is None or not _has_all(folder, manifest):
        return None
    return Finished(folder=folder, manifest=manifest, run=_load(folder / RUN) or {})


@dataclass(frozen=True, kw_only=True)
class _Places:
    """The destination and its hidden siblings."""

    out: Path

    def sibling(self, kind: str) -> Path:
        return self.out.with_name(f".{self.out.name}.ingot-{kind}")

    @property
    def old(self) -> Path:
        return self.sibling("old")

    def stages(self) -> list[Path]:
        return self._siblings("stage-")

    def trash(self) -> list[Path]:
        return self._siblings("trash-")

    def _siblings(self, kind: str) -> list[Path]:
        # Not a glob: the name may hold its special characters.
        start = self.sibling(kind).name
        return sorted(p for p in self.out.parent.iterdir() if p.name.startswith(start))

    def discard(self, folder: Path) -> None:
        """Delete a folder so that a half deleted one is never taken for a whole one."""
        gone = self.sibling(f"trash-{uuid4().hex[:8]}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """One run's hold on a destination.

    Attributes:
        out: the destination, resolved.
        work: folder for finished shards and temporary files; not part of the result.
        result: folder that becomes the destination.
        done: the equal result that is there already (then there is nothing to do), else None.
        resumed: an unfinished equal run was found; `work` holds what it had finished.
        notes: what was put right before this run, for people.
    """

    out: Path
    work: Path
    result: Path
    done: Finished | None = None
    resumed: bool = False
    notes: tuple[str, ...] = ()

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Write run.json and, last, manifest.json, and give the result its name.

        Raises:
            OutputError: it cannot be written; the destination is what it was before.
        """
        places = _Places(out=self.out)
        with writing(self.out):
            (self.result / RUN).write_bytes(encode(run))
            sync_tree(self.result)
            write_file(self.result / MANIFEST, encode(manifest))
            sync(self.result)
            _swap(places, self.result)
            shutil.rmtree(self.work.parent, ignore_errors=True)


def _swap(places: _Places, result: Path) -> None:
    """New in, old out, in one step where the system can; else old aside, new in, old deleted.

    An empty folder is no old result: it is renamed over.
    """
    replaced = _own(places.out) is not None
    if replaced and exchange(result, places.out):
        sync(places.out.parent)
        places.discard(result)
        return
    if replaced:
        places.out.rename(places.old)
    try:
        result.rename(places.out)
    except OSError:
        if replaced:
            places.old.rename(places.out)
        raise
    sync(places.out.parent)
    if replaced:
        with suppress(OSError):  # the result is in place; the next run tries again
            places.discard(places.old)


def _recover(places: _Places) -> list[str]:
    """Finish what a crash left between the renames of a replacement, and empty the trash."""
    for gone in places.trash():
        shutil.rmtree(gone, ignore_errors=True)
    if not places.old.exists():
        return []
    if _own(places.out) is not None:
        places.discard(places.old)
        return []
    if places.out.exists() and not _is_empty(places.out):
        return []  # somebody else's files stand there: what was put aside stays where it is
    ready = [stage / "result" for stage in places.stages() if finished(stage / "result")]
    (ready[0] if ready else places.old).rename(places.out)
    if ready:
        places.discard(places.old)
        return ["finished the replacement that a crash had interrupted"]
    return ["put back the result that a crash had left aside"]


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def remove(folder: Path) -> bool:
    """Delete a result, so that a half deleted one is never taken for a whole one.

    Returns:
        whether it is gone: a folder with files that are not of the result is left as it is.

    Raises:
        OutputError: it cannot be deleted, or another run is writing there.
    """
    places = _Places(out=Path(os.path.realpath(folder)))
    with _locked(places), writing(folder):
        if _own(places.out) is None or _foreign(places.out):
            return False
        _clear(places, keep=None)
        places.discard(places.out)
        return True


def check_usable(out: Path) -> None:
    """See that a destination could be written, before anything costly is done for it.

    Whether the result that lies there is the one to be made is not asked yet; `stage` does.

    Raises:
        OutputError: it is a file, holds foreign files, or its parent cannot be written.
    """
    with writing(out):
        if out.exists() and not _is_empty(out):
            _check_own(out)
            return
        parent = next((p for p in out.resolve().parents if p.exists()), Path("/"))
    if not os.access(parent, os.W_OK | os.X_OK):
        problem = f"cannot be written: no permission in {parent}"
        raise OutputError(str(out), problem, _HINTS[errno.EACCES])


def _check_own(out: Path) -> None:
    if not out.is_dir():
        raise OutputError(str(out), "is a file", "choose a folder that does not exist yet")
    if _own(out) is None:
        problem = "holds files that ingot did not write"
        raise OutputError(str(out), problem, "choose a folder that does not exist yet")


def _check_free(out: Path, overwrite: bool, difference: str | None) -> None:
    if not out.exists() or _is_empty(out):
        return
    _check_own(out)
    if not overwrite:
        problem = f"holds another result: {difference}" if difference else "holds a damaged result"
        raise OutputError(str(out), problem, "choose another folder, or replace it: --overwrite")
    if foreign := _foreign(out):
        problem = f"holds files that are not of the result, such as {foreign[0]}"
        raise OutputError(str(out), problem, "move them away, or choose another folder")


def _foreign(out: Path) -> list[str]:
    """Files in a result that its manifest does not list: replacing it would delete them."""
    listed = (_own(out) or {}).get("files")
    if not isinstance(listed, list):
        return []
    own = {one.get("path") for one in listed if isinstance(one, dict)} | {MANIFEST, RUN}
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return [name for path in files if (name := path.relative_to(out).as_posix()) not in own]


@contextmanager
def _locked(places: _Places) -> Iterator[None]:
    """Hold the destination's lock; the operating system frees it when the process dies."""
    path = places.sibling("lock")
    with writing(places.out):
        descriptor = _lock(path, places.out)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(path: Path, out: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 200).decode(errors="replace").strip()
            os.close(descriptor)
            problem = f"another run is writing there ({holder or 'just started'})"
            raise OutputError(str(out), problem, "wait for it or choose another folder") from error
        except OSError:
            os.close(descriptor)
            raise
        if _still_there(path, descriptor):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        # The holder before us removed the file between our open and our lock: that lock is void.
        os.close(descriptor)


def _still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _clear(places: _Places, keep: Path | None) -> list[str]:
    """Remove unfinished runs but `keep`."""
    stale = [stage for stage in places.stages() if stage != keep]
    for stage in stale:
        places.discard(stage)
    if not stale:
        return []
    return [f"removed {len(stale)} unfinished run(s) of another input, mapping or options"]


def _open(places: _Places, key: str, notes: list[str]) -> Staged:
    folder = places.sibling(f"stage-{key[:16]}")
    notes += _clear(places, keep=folder)
    if finished(folder / "result"):
        # Killed at the very end: what lies there may be the new result or, exchanged, the old one.
        places.discard(folder)
    resumed = folder.exists()
    staged = Staged(
        out=places.out,
        work=folder / "work",
        result=folder / "result",
        resumed=resumed,
        notes=tuple(notes),
    )
    staged.work.mkdir(parents=True, exist_ok=True)
    staged.result.mkdir(exist_ok=True)
    for cut in staged.result.glob(f".{MANIFEST}.*.tmp"):  # killed while the manifest was written
        cut.unlink()
    return staged


def _end_failed(places: _Places, staged: Staged, *, keep: bool) -> None:
    """After an error: parts that serve a later run stay, everything else goes."""
    if keep and staged.work.is_dir() and any(staged.work.iterdir()):
        return
    if staged.work.parent.exists():
        places.discard(staged.work.parent)


@contextmanager
def stage(
    out: Path,
    *,
    key: str,
    difference: Callable[[Finished], str | None],
    overwrite: bool = False,
    keep_work: bool = False,
) -> Iterator[Staged]:
    """Take hold of a destination, for one run.

    The destination must not exist (an empty folder is accepted), or hold an equal result (then
    `Staged.done` is set and the caller has nothing to do), or hold another result of ingot and
    `overwrite` be true. Folders with foreign files are never replaced. A symbolic link is
    followed.

    If the caller's block raises a SourceError or ConversionError nothing stays; after any other
    error (disk full, interrupt), and with `keep_work` after these too, what lies in `Staged.work`
    stays for the next run with the same key.

    Args:
        out: the destination folder.
        key: a hash of everything that decides the result.
        difference: what tells a finished result from the one that this run would make, for people;
            None if it is the same.
        overwrite: replace another result.
        keep_work: the work serves a later run even if the input was at fault.

    Raises:
        OutputError: the destination is taken, locked by another run, or cannot be written.
    """
    places = _Places(out=Path(os.path.realpath(out)))
    with writing(out):
        places.out.parent.mkdir(parents=True, exist_ok=True)
    with _locked(places):
        with writing(out):
            notes = _recover(places)
        there = finished(places.out)
        differs = difference(there) if there else None
        if there is not None and differs is None:
            with writing(out):
                notes += _clear(places, keep=None)
            gone = places.out
            yield Staged(out=places.out, work=gone, result=gone, done=there, notes=tuple(notes))
            return
        with writing(out):
            _check_free(places.out, overwrite, differs)
            staged = _open(places, key, notes)
        try:
            yield staged
        except (SourceError, ConversionError):
            _end_failed(places, staged, keep=keep_work)
            raise
        except OutputError as error:
            _end_failed(places, staged, keep=True)
            if not Path(error.where).is_relative_to(staged.work.parent):
                raise
            # People know the destination, not the hidden folder beside it.
            raise OutputError(str(out), error.problem, error.hint) from error
        except BaseException:
            _end_failed(places, staged, keep=True)
            raise
