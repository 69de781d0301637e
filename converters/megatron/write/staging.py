"""Stage an unfinished data set, assemble it from the lanes, and give it its names.

Beside the prefix, small:

    PREFIX.build.tmp       what is being built (to be compared by a resume) and where its files
                           lie; locked while somebody builds
    PREFIX.commit.tmp      the renames that finish it: written when all files are on the disk

Beside the prefix too, or in the folder for temporary files, under one base name:

    BASE.bin.tmp, ...      the lanes, see `lanes`
    BASE.idx.tmp, ...      the small files, when everything is there

No name but `KIND.tmp` or `KIND-N.tmp` follows the prefix, so no data set `a.b` has a file that
could be one of `a`. `.bin` takes its name first and `.idx` last; a data set without its `.idx` is
not there. A build that was killed between two renames is finished by the next one.
"""

import errno
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import numpy as np

from ingot.converters.errors import OutputError
from ingot.converters.json_yaml import find_json
from ingot.converters.megatron.indexed_dataset import (
    MASK_CODE,
    WRITTEN_CODES,
    TokenDtype,
    index_paths,
    mask_prefix,
    write_index,
)
from ingot.converters.megatron.read.input_files import name_to_text, text_to_name
from ingot.converters.megatron.write.lanes import (
    LANE_FILES,
    LaneStretch,
    file_blocks,
    lane_file,
    lane_numbers,
    read_journal,
    take_lane,
)
from ingot.converters.output.difference import describe_difference
from ingot.converters.output.files import (
    LockedError,
    encode_json,
    hold_lock,
    output_errors,
    sync_path,
    write_file,
)
from ingot.converters.output.sharding import COMMAND_KIND, command_document, other_parts_error

LOCK_SECONDS: Final = 10.0  # processes of a killed build end by themselves within this time
_LOCK: Final = "build"
_COMMIT: Final = "commit"
_KINDS: Final = (
    *(_LOCK, "order", _COMMIT, "probe", "journal", *LANE_FILES),
    *(
        COMMAND_KIND,
        "idx",
        "mask_idx",
        "meta",
        "run",
        "merged_bin",
        "merged_mask",
        "merged_rejects",
    ),
)
_ENDING: Final = re.compile(rf"\.({'|'.join(_KINDS)})(-[0-9]+)?\.tmp", re.ASCII)


class BuildIdentity(TypedDict):
    """What decides the bytes of a data set."""

    version: int
    tokenizer: str  # sha256
    bos: list[int]
    eos: list[int]
    eod_id: int | None
    chat_template: dict[str, str] | None  # its name and sha256
    input: dict[str, str | list[str]]  # an `InputLayout`
    options: dict[str, object]
    expected_special_tokens: str | None  # sha256 of the file that states them
    files: dict[str, int]  # their bytes by name, in their order
    changed: NotRequired[dict[str, int]]  # times of their last changes by name, in nanoseconds


@dataclass(kw_only=True, slots=True)
class Staging:
    """The place of an unfinished data set, locked."""

    prefix: Path  # where the data set is going to be
    base: Path  # what its unfinished large files begin with
    wanted: Path  # what those of a new build begin with
    lock: int  # descriptor of the lock; processes that write here inherit it
    shared: bool = False  # with other parts of the job, which write lanes of their own
    lanes: list[int] = field(default_factory=list)  # that a part has taken
    # why the folder for temporary files was not used; empty if it was, or none was named
    beside: str = ""

    def file(self, kind: str) -> Path:
        """Return the path of an unfinished file: `BASE.KIND.tmp`."""
        return _unfinished_file(self.base, kind)

    def take_lanes(self, count: int) -> Sequence[int]:
        """Return the lanes that this build writes: those of a part are nobody else's."""
        if not self.shared:
            return range(count)
        with output_errors(self.prefix):
            while len(self.lanes) < count:
                self.lanes.append(take_lane(self.base))
        return self.lanes[:count]

    def own_lanes(self) -> Sequence[int]:
        """Return the lanes of this build that there are."""
        return self.lanes if self.shared else lane_numbers(self.base)

    def join(
        self, identity: BuildIdentity, *, resume: bool, overwrite: bool, merges: bool = False
    ) -> bool:
        """Begin a build, or go on with what is unfinished; return whether anything is.

        The parts of a build are gone on with in any case, by another part or by what `merges` them;
        those of another build are refused, or removed with `overwrite`, which a merge never does.
        Raises OutputError.
        """
        begin_lock = self.prefix.with_name(f".{self.prefix.name}.begin.lock")
        lock = (
            hold_lock(begin_lock, wait_s=LOCK_SECONDS, remove=True)
            if self.shared
            else nullcontext()
        )
        with output_errors(self.prefix), lock:  # another part may be beginning
            unfinished = find_json(_unfinished_file(self.prefix, _LOCK), own=True) or {}
            has_parts = _unfinished_file(self.prefix, COMMAND_KIND).exists()
            goes_on = bool(unfinished) and (resume or merges or has_parts or self.shared)
            differs = identity_difference(identity, unfinished["identity"]) if goes_on else ""
            if merges and not unfinished:
                hint = "run its parts first (`shard` I/N)"
                raise OutputError(str(self.prefix), "has no parts to be merged", hint)
            if differs and has_parts and not (overwrite and not merges):
                raise other_parts_error(self.prefix, differs)
            if differs and not has_parts and not self.shared:
                problem = f"the unfinished build differs: {differs}"
                hint = "use the same inputs and options, or leave out `resume` to start again"
                raise OutputError(str(self.prefix), problem, hint)
            goes_on = goes_on and not differs
            if goes_on:
                self.base = Path(text_to_name(unfinished["base"]))
            else:
                self.begin(identity)
            if self.shared and not (has_parts and goes_on):
                write_file(_unfinished_file(self.prefix, COMMAND_KIND), command_document())
        return goes_on

    def begin(self, identity: BuildIdentity) -> None:
        """Remove what is unfinished, and note what is to be built."""
        self.clear()
        # Files of another build must not come back beside this identity after a power cut.
        self._sync_folders()
        self.base = self.wanted
        notes = {"base": name_to_text(self.base.absolute()), "identity": identity}
        notes_file = _unfinished_file(self.prefix, _LOCK)
        notes_file.write_bytes(encode_json(notes, sort_keys=False))
        sync_path(notes_file)

    def clear(self) -> None:
        """Remove all unfinished files but the lock; the commit last, so that it can be finished."""
        last = [_unfinished_file(self.prefix, kind) for kind in (_COMMIT, _LOCK)]
        for path in [*_list_unfinished(self.base), *_list_unfinished(self.prefix)]:
            if path not in last:
                path.unlink(missing_ok=True)
        last[0].unlink(missing_ok=True)

    def commit(self, renames: list[tuple[Path, Path]], stale: list[Path]) -> None:
        """Give files their names, the last of them making the data set be there."""
        for _, target in renames:
            if target.exists() and not target.is_file():
                raise OutputError(str(target), "is no file that can be replaced", "name another")
        with output_errors(self.prefix):
            # What of an older data set goes before, and the renames that finish this one.
            order = {"stale": _absolute_names(stale), "renames": [*map(_absolute_names, renames)]}
            written = _unfinished_file(self.prefix, "order")
            written.write_bytes(encode_json(order))
            sync_path(written)
            written.replace(_unfinished_file(self.prefix, _COMMIT))
            self._sync_folders()
            self.finish_commit()

    def finish_commit(self) -> bool:
        """Carry out a commit, also one that a killed build began; whether there was one."""
        order = find_json(_unfinished_file(self.prefix, _COMMIT), own=True)
        if not order:
            return False
        with output_errors(self.prefix):
            _rename_all(order["stale"], order["renames"])
            self._sync_folders()
            self.clear()
        return True

    def _sync_folders(self) -> None:
        for folder in {self.prefix.parent, self.base.parent}:
            sync_path(folder)


def _absolute_names(paths: Iterable[Path]) -> list[str]:
    return [name_to_text(path.absolute()) for path in paths]


def _rename_all(stale: list[str], pairs: list[list[str]]) -> None:
    renames = [(Path(text_to_name(source)), Path(text_to_name(target))) for source, target in pairs]
    pending = [(source, target) for source, target in renames if source.exists()]
    # What was renamed before the build was killed is no file of an older data set.
    new = {target for source, target in renames if not source.exists()}
    removed = [path for path in map(Path, map(text_to_name, stale)) if path not in new]
    if not pending:
        return
    for path in removed:  # the old index first
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in removed}:
        sync_path(folder)
    for source, target in pending:
        source.replace(target)


def _unfinished_file(base: Path, kind: str) -> Path:
    return base.with_name(f"{base.name}.{kind}.tmp")


def _list_unfinished(base: Path) -> list[Path]:
    if not base.parent.is_dir():
        return []
    return [
        path
        for path in base.parent.iterdir()
        if path.name.startswith(base.name) and _ENDING.fullmatch(path.name, len(base.name))
    ]


@contextmanager
def open_staging(prefix: Path, tmp_dir: Path | None, *, shared: bool = False) -> Iterator[Staging]:
    """Yield the locked place of a prefix's unfinished data set; its folder is made.

    An unfinished build is found where its files lie, even if `tmp_dir` is another one now.
    """
    _check_name(prefix)
    lock_file = _unfinished_file(prefix, _LOCK)
    with ExitStack() as stack:
        with output_errors(prefix):
            prefix.parent.mkdir(parents=True, exist_ok=True)
            try:
                lock = stack.enter_context(hold_lock(lock_file, wait_s=LOCK_SECONDS, shared=shared))
            except LockedError as error:
                problem, hint = "another build is writing it", "wait for it, or end it"
                raise OutputError(str(prefix), problem, hint) from error
            wanted_base, beside = _staging_base(prefix, tmp_dir)
        base = (find_json(lock_file, own=True) or {}).get("base")
        start = wanted_base if base is None else Path(text_to_name(base))
        staging = Staging(
            prefix=prefix, base=start, wanted=wanted_base, lock=lock, shared=shared, beside=beside
        )
        try:
            yield staging
        finally:
            if not shared and set(_list_unfinished(staging.base)) | set(
                _list_unfinished(prefix)
            ) <= {lock_file}:
                lock_file.unlink(missing_ok=True)


def _check_name(prefix: Path) -> None:
    hint = "give a prefix such as out/corpus"
    if prefix.name in ("", ".."):
        raise OutputError(str(prefix), "names no data set", hint)
    if prefix.name.endswith(".loss_mask"):
        raise OutputError(str(prefix), "is a name for loss masks", hint)


def _staging_base(prefix: Path, tmp_dir: Path | None) -> tuple[Path, str]:
    """What the large files begin with; and why they are not in the folder for temporary files."""
    if tmp_dir is None:
        return prefix, ""
    tmp_dir.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(os.fsencode(prefix.absolute())).hexdigest()[:8]
    base = tmp_dir / f"{prefix.name}.{digest}"
    probe = _unfinished_file(base, "probe")
    probe.touch()
    try:
        # The only sure way to know: two mounts may be of one device.
        probe.replace(_unfinished_file(prefix, "probe"))
    except OSError as error:
        probe.unlink()
        if error.errno != errno.EXDEV:
            raise
        return prefix, f"{tmp_dir} is on another file system than {prefix.parent}"
    _unfinished_file(prefix, "probe").unlink()
    return base, ""


def identity_difference(current: BuildIdentity, former: BuildIdentity) -> str:
    """Return what differs between two identities, in words; empty if nothing does."""
    ours, theirs = (one.get("files", {}) for one in (current, former))
    words = {f"changed.{name}": f"{name} was changed in between" for name in ours if name in theirs}
    differs = describe_difference(current, former, words)
    if ours == theirs and [*ours] != [*theirs]:
        return "; ".join(filter(None, (differs, "the files are in another order")))
    return differs


_COPY_BYTES: Final = 8 << 20


def _stored_numbers(
    base: Path, stretches: Sequence[LaneStretch], kind: str
) -> Iterator[np.ndarray[Any, np.dtype[np.int32]]]:
    """The numbers of one kind in all stretches, in the order of the units, block by block."""
    for stretch in stretches:
        path = lane_file(base, stretch.lane, kind)
        yield from (
            np.frombuffer(block, "<i4") for block in file_blocks(path, *stretch.spans[kind])
        )


def finished_units(base: Path) -> dict[int, LaneStretch]:
    """Return all units that are finished in any lane."""
    return {
        number: stretch
        for lane in lane_numbers(base)
        for number, stretch in read_journal(base, lane).stretches.items()
    }


def sum_counts(stretches: Sequence[LaneStretch]) -> Counter[str]:
    """Sum the counts of several units."""
    return sum((Counter(stretch.facts) for stretch in stretches), Counter())


def assemble(
    staging: Staging,
    stretches: Sequence[LaneStretch],
    dtype: TokenDtype,
    *,
    masks: bool,
    rejects: Path,
) -> list[tuple[Path, Path]]:
    """Bring the stretches of the lanes together on the disk; gives files and their names to be.

    The `.idx` is the last.
    """
    bin_path, idx_path, _ = index_paths(staging.prefix)
    renames = []
    with output_errors(staging.prefix):
        renames.append((_gather_file(staging, stretches, "bin"), bin_path))
        lengths, documents = (
            partial(_stored_numbers, staging.base, stretches, kind)
            for kind in ("lengths", "documents")
        )
        write_index(staging.file("idx"), WRITTEN_CODES[dtype], lengths, documents)
        if masks:
            mask_bin, mask_idx, _ = index_paths(mask_prefix(staging.prefix))
            renames.append((_gather_file(staging, stretches, "mask"), mask_bin))
            write_index(staging.file("mask_idx"), MASK_CODE, lengths, documents)
            renames.append((staging.file("mask_idx"), mask_idx))
        if any(start < end for start, end in (stretch.spans["rejects"] for stretch in stretches)):
            renames.append((_gather_file(staging, stretches, "rejects"), rejects))
    return [*renames, (staging.file("idx"), idx_path)]


def commit_data_set(
    staging: Staging,
    renames: Sequence[tuple[Path, Path]],
    *,
    meta: Mapping[str, object],
    run: Mapping[str, object],
    run_file: Path,
) -> None:
    """Write `.meta.json` and `.run.json` (times and places), then give everything its name."""
    _, idx_path, meta_path = index_paths(staging.prefix)
    *first, last = renames
    with output_errors(staging.prefix):
        for kind, document in (("meta", meta), ("run", run)):
            # As it is, for the order of the files is part of what was built.
            staging.file(kind).write_bytes(encode_json(document, sort_keys=kind == "meta"))
            sync_path(staging.file(kind))
    documents = [(staging.file("run"), run_file), (staging.file("meta"), meta_path)]
    mask_bin, mask_idx, _ = index_paths(mask_prefix(staging.prefix))
    rejects = staging.prefix.with_name(f"{staging.prefix.name}.rejects.jsonl")
    staging.commit([*first, *documents, last], [idx_path, mask_idx, mask_bin, rejects])


def _gather_file(staging: Staging, stretches: Sequence[LaneStretch], kind: str) -> Path:
    """One file of all stretches: the first lane's own where that is it already."""
    first_file = lane_file(staging.base, 0, kind)
    spans = [(stretch.lane, *stretch.spans[kind]) for stretch in stretches]
    spans = [(lane, start, end) for lane, start, end in spans if start < end]
    size = first_file.stat().st_size if first_file.exists() else 0
    lanes, starts, ends = ([span[i] for span in spans] for i in range(3))
    if not any(lanes) and [*starts, size] == [0, *ends]:  # they follow each other up to its end
        sync_path(first_file)
        return first_file
    merged = staging.file(f"merged_{kind}")
    with merged.open("wb") as out:
        for lane, start, end in spans:
            with lane_file(staging.base, lane, kind).open("rb") as source:
                missing = copy_stretch(source.fileno(), out.fileno(), start, end - start)
            if missing:
                raise OSError(f"{missing} bytes are missing")
    sync_path(merged)
    return merged


def copy_stretch(source: int, out: int, start: int, size: int) -> int:
    """Append a stretch of one open file to another, in the kernel if it can; the bytes missing."""
    while size:
        try:
            done = os.copy_file_range(source, out, min(size, _COPY_BYTES), start)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            done = os.write(out, os.pread(source, min(size, _COPY_BYTES), start))
        if not done:
            break
        start, size = start + done, size - done
    return size
