"""Take hold of the destination of a run by its identity, and commit what the run made there.

What goes into an object store as a whole is made on a disk, and put when it is finished.
"""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ingot.converters.errors import OutputError, SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.output.commit import StagedResult, remove_result, stage
from ingot.converters.output.difference import FinishedResult, ResultIdentity
from ingot.converters.output.files import FileEntry, LockedError, is_store_url, output_errors
from ingot.converters.output.object_store import check_url, read_json
from ingot.converters.output.sharding import WHOLE, Spread
from ingot.converters.output.store_commit import (
    CLAIM,
    ShardStore,
    StoredResult,
    check_claimed,
    enter_names,
    find_equal,
    note_part,
    stage_in_store,
    take_claim,
)
from ingot.converters.progress import host_facts
from ingot.converters.rows import Json

ALREADY_DONE: Final = "this result was there already: nothing to do"
STATS: Final = "stats.json"


@dataclass(frozen=True, kw_only=True)
class RunIdentity(ResultIdentity):
    """The identity of the result that a run makes."""

    def stage(
        self,
        out: Path | str,
        *,
        key: str | None = None,
        overwrite: bool = False,
        keep_work: bool = False,
        spread: Spread = WHOLE,
        by_shards: bool = False,
    ) -> AbstractContextManager[StagedResult]:
        """Take hold of a destination for this run: a folder, or the URL of an object store.

        See `commit.stage`, and of stores `stage_to_put`, or, where the job puts its
        shards as it finishes them (`by_shards`), `store_commit.stage_in_store`. `key` is that of
        the unfinished run, where it is not the identity's.
        """
        if is_store_url(out):
            if by_shards:
                return stage_in_store(str(out), self, overwrite=overwrite, shard=spread.shard)
            options: Any = {"overwrite": overwrite, "keep_work": keep_work}
            return stage_to_put(str(out), self, spread, key=key or self.key(), **options)
        return stage(
            Path(out),
            key=key or self.key(),
            difference=self.difference,
            overwrite=overwrite,
            keep_work=keep_work,
            shard=spread.shard,
            job=self,
            replaces=overwrite,
        )

    def commit(
        self,
        staged: StagedResult,
        manifest: Mapping[str, object],
        run: Mapping[str, object],
        known: Iterable[FileEntry] = (),
    ) -> tuple[dict[str, Json], dict[str, Json]]:
        """Complete and write manifest.json and run.json, and give the result its name."""
        complete = {**self.settled, **manifest, "files": staged.list_files(known)}
        facts = {
            **run,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host_facts(),
            "notes": list(staged.notes),
        }
        if self.stamps is not None:
            facts["inputs"] = self.stamped_inputs()
        staged.commit(complete, facts)
        return complete, facts


@dataclass(frozen=True, kw_only=True)
class CommittedResult:
    """A result in its place; `already_done`: it was there before, nothing was done."""

    out: Path | str  # a URL of an object store is a text
    manifest: dict[str, Json]
    stats: dict[str, Json] = field(default_factory=dict)  # what its stats.json says, if it has one
    already_done: bool = False
    notes: tuple[str, ...] = ()


def existing_result(staged: StagedResult) -> CommittedResult | None:
    """Return the equal result that a destination holds already; None where it holds none."""
    if staged.done is None:
        return None
    path = staged.done.folder / STATS
    try:
        if isinstance(staged.place, str):
            stats = read_json(f"{staged.place}/{STATS}") or {}
        else:
            stats = load_json(path) if path.exists() else {}
    except (OSError, ValueError) as error:
        hint = "is it a folder that ingot wrote?"
        raise SourceError(str(path), f"cannot be read: {error}", hint) from error
    manifest, notes = staged.done.manifest, (*staged.notes, ALREADY_DONE)
    return CommittedResult(
        out=staged.place, manifest=manifest, stats=stats, already_done=True, notes=notes
    )


_NAME_CHARS: Final = 60  # of a URL


@dataclass(frozen=True, kw_only=True)
class PutResult(StagedResult):
    """One run's hold on a local folder, which is put into a store when it is finished."""

    store: ShardStore
    identity: ResultIdentity
    overwrite: bool

    @property
    def place(self) -> str:
        """Return the URL."""
        return self.store.url

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Commit the local folder, so that it is never made again, and put its files."""
        StagedResult.commit(self, manifest, run)
        result = FinishedResult(folder=self.out, manifest=manifest, run=run)
        _put_result(result, self.store, self.identity, overwrite=self.overwrite)


def _put_result(
    result: FinishedResult, store: ShardStore, identity: ResultIdentity, *, overwrite: bool
) -> None:
    """Claim the destination, replace what is there, and put the files, the manifest last."""
    existing, equal = find_equal(store, identity, overwrite=overwrite)
    if equal is not None:  # another run of the same was faster
        return
    take_claim(store, existing, identity, overwrite=overwrite)
    enter_names(store, {*existing, *(file["path"] for file in result.manifest["files"])})
    local = result.folder
    StoredResult(out=local, work=local, result=local, store=store).commit(
        result.manifest, result.run
    )


@contextmanager
def stage_to_put(
    url: str,
    identity: ResultIdentity,
    spread: Spread,
    *,
    key: str,
    overwrite: bool,
    keep_work: bool,
) -> Iterator[StagedResult]:
    """Take hold of a local folder, as `commit.stage` does, whose files go into a store at last.

    The folder is named for the URL, so that the next run finds what one that was killed left. A
    finished one that was not put as a whole is put at once.
    """
    store = ShardStore(url=check_url(url), key=identity.key())
    existing, equal = find_equal(store, identity, overwrite=overwrite)
    if equal is None and CLAIM in existing and not overwrite:
        check_claimed(store, identity)
    digest = hashlib.sha256(store.url.encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "-", store.url, flags=re.ASCII)[-_NAME_CHARS:]
    out = _tmp_folder(store, spread) / f"{name}-{digest}"
    with ExitStack() as stack:
        if equal is None:
            options: Any = {"keep_work": keep_work, "shard": spread.shard, "job": identity}
            options |= {"overwrite": True, "replaces": overwrite}
            try:
                local = stage(out, key=key, difference=identity.difference, **options)
                staged = stack.enter_context(local)
            except OutputError as error:
                if isinstance(error.__cause__, LockedError):
                    raise OutputError(store.where, *error.args[1:]) from error
                raise
            note_part(store, spread.shard, identity, existing)
            if staged.done is not None:
                _put_result(staged.done, store, identity, overwrite=overwrite)
            fields: Any = vars(staged) | {"store": store}
            yield PutResult(**fields, identity=identity, overwrite=overwrite)
        else:
            yield StoredResult(out=out, work=out, result=out, store=store, done=equal)
    with suppress(OutputError):  # somebody else works there
        remove_result(out)


def _tmp_folder(store: ShardStore, spread: Spread) -> Path:
    """Where results are made that go into a store. Raises OutputError."""
    if spread.tmp_dir is not None:
        return spread.tmp_dir.absolute()
    if spread.shard is not None or spread.runner == "ray":
        problem = "several machines need a folder for what is unfinished"
        raise OutputError(store.where, problem, "name one that all of them share with `tmp_dir`")
    folder = Path(tempfile.gettempdir(), f"ingot-{os.getuid()}")
    with output_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    if facts.st_uid != os.getuid() or not stat.S_ISDIR(facts.st_mode):
        raise OutputError(str(folder), "belongs to somebody else", "name another with `tmp_dir`")
    return folder
