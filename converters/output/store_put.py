"""Results that are made on a disk, and put into an object store when they are finished."""

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingot.converters.errors import OutputError
from ingot.converters.output.commit import StagedResult, stage
from ingot.converters.output.files import encode_json, output_errors
from ingot.converters.output.object_store import check_url, put_bytes
from ingot.converters.output.sharding import Spread
from ingot.converters.output.store_commit import (
    CLAIM,
    PUT_NAMES,
    ShardStore,
    StoredResult,
    check_claimed,
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
    """One run's hold on a local folder, whose files it puts into a store when all are there."""

    identity: "RunIdentity"
    overwrite: bool

    list_files = StagedResult.list_files  # all of them are here

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Claim the destination, replace what is there, and put the files, the manifest last."""
        url = self.store.url
        there, found = find_equal(self.store, self.identity, overwrite=self.overwrite)
        if found is not None:  # another run of the same was faster
            shutil.rmtree(self.work.parent, ignore_errors=True)
            return
        take_claim(self.store, there, self.identity, overwrite=self.overwrite)
        names = [one["path"] for one in manifest["files"]]
        # Before the first of them, so that it is known whose they are.
        put_bytes(encode_json({"files": names}), f"{url}/{self.store.folder}/{PUT_NAMES}")
        super().commit(manifest, run)
        shutil.rmtree(self.work.parent, ignore_errors=True)


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

    The folder is named for the URL, so that the next run finds what one that was killed left.
    """
    store = ShardStore(url=check_url(url), key=identity.key())
    there, found = find_equal(store, identity, overwrite=overwrite)
    if found is None and CLAIM in there and not overwrite:
        check_claimed(store, identity)
    name = re.sub(r"[^\w.-]+", "-", store.url)[-_NAME_CHARS:]
    out = (
        _tmp_folder(store, spread) / f"{name}-{hashlib.sha256(store.url.encode()).hexdigest()[:8]}"
    )
    if found is not None:
        yield StoredResult(out=out, work=out, result=out, store=store, done=found)
        return
    note_part(store, spread.shard)
    with stage(
        out,
        key=key,
        difference=identity.difference,
        keep_work=keep_work,
        shard=spread.shard,
    ) as held:
        yield PutResult(**vars(held) | {"store": store}, identity=identity, overwrite=overwrite)


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
