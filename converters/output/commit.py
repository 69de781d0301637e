"""A folder of results appears whole or not at all; a crash at any moment is put right later."""

import ctypes
import errno
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.json_yaml import find_json
from ingot.converters.output.difference import FinishedResult, ResultIdentity
from ingot.converters.output.files import (
    HINTS,
    MANIFEST,
    RUN,
    FileEntry,
    LockedError,
    encode_json,
    hold_lock,
    list_files,
    output_errors,
    sync_path,
    sync_tree,
    write_file,
)
from ingot.converters.output.pieces import PieceFolders, PiecePlace, take_file
from ingot.converters.output.sharding import (
    COMMAND_FILE,
    JOB_FILE,
    JobShard,
    note_job,
    other_parts_error,
)
from ingot.converters.rows import Json

_PARTS = {
    "rows": {"read", "converted", "rejected", "filtered"},
    "records": {"written", "rejected", "filtered"},
    "rejects": set[str](),
    "options": set[str](),
    "warnings": {"paths", "meta"},
}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def replace_folder(new: Path, target: Path, *, old_path: Path) -> Path:
    """Give a folder the name of another and return where that one lies now."""
    # In one step where the system can; else the old one goes aside first, and back if that fails.
    old = new if exchange_folders(new, target) else target.rename(old_path)
    if old == old_path:
        try:
            new.rename(target)
        except OSError:
            old_path.rename(target)
            raise
    sync_path(target.parent)
    return old


def exchange_folders(first: Path, second: Path) -> bool:
    """Let two existing paths trade places atomically; False where that cannot be done here."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = os.fsencode(first), os.fsencode(second)
    done: int = renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE))
    return done == 0


def _own_manifest(folder: Path) -> dict[str, Json] | None:
    """The manifest of a folder that ingot wrote, damaged or not."""
    return own_manifest(find_json(folder / MANIFEST))


def own_manifest(manifest: dict[str, Json] | None) -> dict[str, Json] | None:
    """Return the manifest if ingot wrote it, else None."""
    versions = manifest.get("versions") if manifest else None
    return manifest if isinstance(versions, dict) and "ingot" in versions else None


def _has_all_files(folder: Path, manifest: dict[str, Json]) -> bool:
    try:
        return all((folder / f["path"]).stat().st_size == f["bytes"] for f in manifest["files"])
    except (OSError, KeyError, TypeError):
        return False


def has_counts(manifest: dict[str, Json]) -> bool:
    """Return whether a manifest of records has the counts that readers expect; others pass."""
    if manifest.get("decision") not in ("pt", "sft", "irrelevant"):
        return True
    parts = {name: manifest.get(name) for name in _PARTS}
    complete = all(
        isinstance(part, dict) and _PARTS[name] <= part.keys() for name, part in parts.items()
    )
    return complete and isinstance(manifest.get("inputs"), list) and "tokens" in manifest


def find_finished(folder: Path) -> FinishedResult | None:
    """Return the finished result in a folder, None if there is none or a file is missing or cut."""
    manifest = _own_manifest(folder)
    if manifest is None or not has_counts(manifest) or not _has_all_files(folder, manifest):
        return None
    return FinishedResult(folder=folder, manifest=manifest, run=find_json(folder / RUN) or {})


@dataclass(frozen=True, kw_only=True)
class _Destination:
    """The destination and its hidden siblings."""

    out: Path

    def sibling(self, kind: str) -> Path:
        return self.out.parent / f".{self.out.name}.ingot-{kind}"

    @property
    def old(self) -> Path:
        return self.sibling("old")

    def stages(self) -> list[Path]:
        """Return the unfinished runs; a folder that holds anything else is not ours."""
        names = {"work", "result"}
        stages = self._siblings("stage-")
        return [path for path in stages if {entry.name for entry in path.iterdir()} <= names]

    def parts(self, staging: Path | None) -> list[Path]:
        """Return the folders where the other parts of the job work."""
        return [stage for stage in self.stages() if stage != staging and _has_parts(stage)]

    def trash(self) -> list[Path]:
        return self._siblings("trash-")

    def _siblings(self, kind: str) -> list[Path]:
        # Not a glob: the name may hold its special characters.
        name = re.compile(re.escape(self.sibling(kind).name) + "[0-9a-f]+")
        siblings = (path for path in self.out.parent.iterdir() if name.fullmatch(path.name))
        return sorted(path for path in siblings if path.is_dir() and not path.is_symlink())

    def discard(self, folder: Path) -> None:
        """Delete a folder so that a half deleted one is never taken for a whole one."""
        trash = self.sibling(f"trash-{uuid4().hex[:8]}")
        folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class StagedResult:
    """One run's hold on a destination."""

    out: Path
    work: Path  # folder for finished shards and temporary files; not part of the result
    result: Path
    # the equal result that is there already (then there is nothing to do), else None
    done: FinishedResult | None = None
    resumed: bool = False  # an unfinished equal run was found; `work` holds what it had finished
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> Path | str:
        """Return the destination as people know it."""
        return self.out

    @property
    def pieces(self) -> PiecePlace:
        """Return where the pieces of the job go."""
        return PieceFolders(self.work)

    def take_part(self, piece: str, path: str, name: str, etag: str | None = None) -> None:
        """Move a file of a piece into the result under its name there."""
        take_file(self.work / piece / path, self.result / name)

    def found_facts(self) -> dict[str, Json]:
        """Return what run.json says of what the run found of an unfinished one."""
        return {"resumed": self.resumed}

    def list_files(self, known: Iterable[FileEntry]) -> list[FileEntry]:
        """Return the result's files without manifest and run.json; `known` ones are not hashed."""
        with output_errors(self.out):
            return list_files(self.result, known)

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Write run.json and, last, manifest.json, and give the result its name."""
        destination = _Destination(out=self.out)
        with output_errors(self.out):
            (self.result / RUN).write_bytes(encode_json(run))
            sync_tree(self.result)
            write_file(self.result / MANIFEST, encode_json(manifest))
            sync_path(self.result)
            _swap(destination, self.result)
            shutil.rmtree(self.work.parent, ignore_errors=True)


def _swap(destination: _Destination, result: Path) -> None:
    """New in, old out."""
    if _own_manifest(destination.out) is None:  # an empty folder: it is renamed over
        result.rename(destination.out)
        sync_path(destination.out.parent)
        return
    old = replace_folder(result, destination.out, old_path=destination.old)
    with suppress(OSError):  # the result is in place; the next run tries again
        destination.discard(old)


def _recover(destination: _Destination) -> list[str]:
    """Finish what a crash left between the renames of a replacement, and empty the trash."""
    for folder in destination.trash():
        shutil.rmtree(folder, ignore_errors=True)
    if _own_manifest(destination.old) is None:  # nothing, or somebody else's
        return []
    if _own_manifest(destination.out) is not None:
        destination.discard(destination.old)
        return []
    if destination.out.exists() and not _is_empty(destination.out):
        return []  # somebody else's files stand there: what was put aside stays where it is
    finished = [
        stage / "result" for stage in destination.stages() if find_finished(stage / "result")
    ]
    (finished[0] if finished else destination.old).rename(destination.out)
    if finished:
        destination.discard(destination.old)
        return ["finished the replacement that a crash had interrupted"]
    return ["put back the result that a crash had left aside"]


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def remove_result(folder: Path) -> bool:
    """Delete a result, so that a half deleted one is never taken for a whole one."""
    destination = _Destination(out=Path(os.path.realpath(folder)))
    with _hold_destination(destination), output_errors(folder):
        if _own_manifest(destination.out) is None or _foreign_files(destination.out):
            return False
        _clear_stages(destination)
        destination.discard(destination.out)
        return True


def check_destination(out: Path) -> None:
    """See that a destination could be written, before anything costly is done for it."""
    with output_errors(out):
        if out.exists() and not _is_empty(out):
            _check_own(out)
            return
        parent = next((p for p in out.resolve().parents if p.exists()), Path("/"))
    if not os.access(parent, os.W_OK | os.X_OK):
        problem = f"cannot be written: no permission in {parent}"
        raise OutputError(str(out), problem, HINTS[errno.EACCES])


def _check_own(out: Path) -> None:
    if not out.is_dir():
        raise OutputError(str(out), "is a file", "choose a folder that does not exist yet")
    if _own_manifest(out) is None:
        problem = "holds files that ingot did not write"
        raise OutputError(str(out), problem, "choose a folder that does not exist yet")


def _check_free(out: Path, overwrite: bool, difference: str | None) -> None:
    if not out.exists() or _is_empty(out):
        return
    _check_own(out)
    if not overwrite:
        problem = f"holds another result: {difference}" if difference else "holds a damaged result"
        hint = "choose another folder, or replace the result with `overwrite`"
        raise OutputError(str(out), problem, hint)
    if foreign := _foreign_files(out):
        problem = f"holds files that are not part of the result, such as {foreign[0]}"
        raise OutputError(str(out), problem, "move them away, or choose another folder")


def _foreign_files(out: Path) -> list[str]:
    """Files in a result that its manifest does not list: replacing it would delete them."""
    listed = (_own_manifest(out) or {}).get("files")
    if not isinstance(listed, list):
        return []
    listed_names = {entry.get("path") for entry in listed if isinstance(entry, dict)} | {
        MANIFEST,
        RUN,
    }
    files = (path for path in sorted(out.rglob("*")) if path.is_file() or path.is_symlink())
    return [
        name for path in files if (name := path.relative_to(out).as_posix()) not in listed_names
    ]


@contextmanager
def _hold_destination(destination: _Destination, *, shared: bool = False) -> Iterator[None]:
    with ExitStack() as stack:
        with output_errors(destination.out):
            try:
                lock = hold_lock(destination.sibling("lock"), sign=True, remove=True, shared=shared)
                stack.enter_context(lock)
            except LockedError as error:
                problem = f"another run is writing there ({error})"
                hint = "wait for it or choose another folder"
                raise OutputError(str(destination.out), problem, hint) from error
        yield


def _has_parts(folder: Path) -> bool:
    """Whether the parts of a job work in the folder of an unfinished run."""
    return (folder / "work" / COMMAND_FILE).exists()


def _clear_stages(
    destination: _Destination, staging: Path | None = None, *, keep: bool = False
) -> list[str]:
    """Remove unfinished runs, the own one too unless `keep`; the parts of other jobs stay."""
    other_parts = destination.parts(staging)
    kept_stages = [*other_parts, staging] if keep else other_parts
    stale = [stage for stage in destination.stages() if stage not in kept_stages]
    for stage in stale:
        destination.discard(stage)
    removed = f"removed {len(stale)} unfinished run(s) with other inputs or options"
    notes = [f"left the parts of another job in {part}" for part in other_parts]
    return [removed, *notes] if {*stale} - {staging} else notes


def _check_parts(
    destination: _Destination, staging: Path, job: ResultIdentity | None, *, replaces: bool
) -> list[str]:
    """Refuse to begin beside the parts of another job, unless it `replaces` them.

    A job whose own parts lie there goes on, as it would alone.
    """
    other_parts = [] if _has_parts(staging) else destination.parts(staging)
    for part in other_parts:
        job_document = find_json(part / "work" / JOB_FILE, own=True)
        differs = (
            job.job_difference(job_document)
            if job and job_document
            else "of another version of ingot"
        )
        if not replaces:
            raise other_parts_error(destination.out, differs)
        destination.discard(part)
    return ["removed the parts of another job"] if other_parts else []


def _open_stage(
    destination: _Destination,
    folder: Path,
    notes: list[str],
    job: ResultIdentity | None,
    *,
    shared: bool = False,
) -> StagedResult:
    notes += [] if shared else _clear_stages(destination, folder, keep=True)
    if not shared and find_finished(folder / "result"):
        # Killed at the very end: what lies there may be the new result or, exchanged, the old one.
        destination.discard(folder)
    resumed = folder.exists()
    staged = StagedResult(
        out=destination.out,
        work=folder / "work",
        result=folder / "result",
        resumed=resumed,
        notes=tuple(notes),
    )
    staged.work.mkdir(parents=True, exist_ok=True)
    staged.result.mkdir(exist_ok=True)
    if shared:
        note_job(staged.work, job.job_document() if job else {})
        return staged
    for draft in staged.result.glob(f".{MANIFEST}.*.tmp"):  # killed while the manifest was written
        draft.unlink()
    return staged


def _clean_failed_run(destination: _Destination, staged: StagedResult, *, keep: bool) -> None:
    """After an error: parts that serve a later run stay, everything else goes."""
    if keep and staged.work.is_dir() and any(staged.work.iterdir()):
        return
    if staged.work.parent.exists():
        destination.discard(staged.work.parent)


def unfinished_runs(out: Path) -> list[Path]:
    """Return the folders of the unfinished runs, or parts of a job, that write to a destination."""
    return _Destination(out=out).stages() if out.parent.is_dir() else []


@contextmanager
def stage(
    out: Path,
    *,
    key: str,
    difference: Callable[[FinishedResult], str | None],
    overwrite: bool = False,
    keep_work: bool = False,
    shard: JobShard | None = None,
    job: ResultIdentity | None = None,
    replaces: bool = False,
) -> Iterator[StagedResult]:
    """Take hold of a destination, for one run, or together with the other parts of a job.

    The destination must not exist (an empty folder is accepted), or hold an equal result (then
    `done` is set), or another one and `overwrite` be true; folders with foreign files are never
    replaced. So are the parts of another `job`, unless this one `replaces` them, which a merge
    never does. After a SourceError or ConversionError nothing stays; after any other error, and
    with `keep_work` or the parts of a job after these too, what lies in `work` stays for the next
    run with the same key. A symbolic link is followed.
    """
    destination = _Destination(out=Path(os.path.realpath(out)))
    with output_errors(out):
        destination.out.parent.mkdir(parents=True, exist_ok=True)
    shared = shard is not None and not shard.merges
    staging = destination.sibling(f"stage-{key[:16]}")
    with _hold_destination(destination, shared=shared):
        with output_errors(out):
            notes = [] if shared else _recover(destination)
        existing = find_finished(destination.out)
        differs = difference(existing) if existing else None
        if existing is not None and differs is None:
            with output_errors(out):
                notes += [] if shared else _clear_stages(destination, staging)
            result = destination.out
            yield StagedResult(
                out=result, work=result, result=result, done=existing, notes=tuple(notes)
            )
            return
        with output_errors(out):
            _check_free(destination.out, overwrite, differs)
            with hold_lock(destination.sibling("begin"), wait_s=math.inf, remove=True):
                replaces = replaces and (shard is None or shared)
                notes += _check_parts(destination, staging, job, replaces=replaces)
                staged = _open_stage(destination, staging, notes, job, shared=shared)
        try:
            yield staged
        except (SourceError, ConversionError):
            _clean_failed_run(destination, staged, keep=keep_work or _has_parts(staging))
            raise
        except OutputError as error:
            _clean_failed_run(destination, staged, keep=True)
            if not Path(error.where).is_relative_to(staged.work.parent):
                raise
            # People know the destination, not the hidden folder beside it.
            raise type(error)(str(out), error.problem, error.hint) from error
        except BaseException:
            _clean_failed_run(destination, staged, keep=True)
            raise
