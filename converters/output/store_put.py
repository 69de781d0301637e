"""Results that are made on a disk, and put into an object store when they are finished."""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingot.converters.errors import OutputError
from ingot.converters.output.commit import FinishedResult, StagedResult, remove_result, stage
from ingot.converters.output.files import LockedError, output_errors
from ingot.converters.output.object_store import check_url
from ingot.converters.output.sharding import Spread
from ingot.converters.output.store_commit import (
    CLAIM,
    ShardStore,
    StoredResult,
    check_claimed,
    enter_names,
    find_equal,
    note_part,
    take_claim,
)
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.output.identity import RunIdentity

_NAME_CHARS: Final = 60  # of a URL


@dataclass(frozen=True, kw_only=True)
class PutResult(StoredResult):
    """One run's hold on a local folder, which is put into a store when it is finished."""

    identity: "RunIdentity"
    overwrite: bool

    list_files = StagedResult.list_files  # all of them are here

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Commit the local folder, so that it is never made again, and put its files."""
        StagedResult.commit(self, manifest, run)
        whole = FinishedResult(folder=self.out, manifest=manifest, run=run)
        _put_result(whole, self.store, self.identity, overwrite=self.overwrite)


def _put_result(
    whole: FinishedResult, store: ShardStore, identity: "RunIdentity", *, overwrite: bool
) -> None:
    """Claim the destination, replace what is there, and put the files, the manifest last."""
    there, found = find_equal(store, identity, overwrite=overwrite)
    if found is not None:  # another run of the same was faster
        return
    take_claim(store, there, identity, overwrite=overwrite)
    enter_names(store, {*there, *(one["path"] for one in whole.manifest["files"])})
    local = whole.folder
    StoredResult(out=local, work=local, result=local, store=store).commit(whole.manifest, whole.run)


@contextmanager
def stage_to_put(
    url: str,
    identity: "RunIdentity",
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
    there, found = find_equal(store, identity, overwrite=overwrite)
    if found is None and CLAIM in there and not overwrite:
        check_claimed(store, identity)
    digest = hashlib.sha256(store.url.encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "-", store.url, flags=re.ASCII)[-_NAME_CHARS:]
    out = _tmp_folder(store, spread) / f"{name}-{digest}"
    with ExitStack() as stack:
        if found is None:
            how: Any = {"keep_work": keep_work, "shard": spread.shard, "job": identity}
            how |= {"overwrite": True, "replaces": overwrite}
            try:
                local = stage(out, key=key, difference=identity.difference, **how)
                held = stack.enter_context(local)
            except OutputError as error:
                if isinstance(error.__cause__, LockedError):
                    raise OutputError(store.where, *error.args[1:]) from error
                raise
            note_part(store, spread.shard, identity, there)
            if held.done is not None:
                _put_result(held.done, store, identity, overwrite=overwrite)
            more: Any = vars(held) | {"store": store}
            yield PutResult(**more, identity=identity, overwrite=overwrite)
        else:
            yield StoredResult(out=out, work=out, result=out, store=store, done=found)
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
