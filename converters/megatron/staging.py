"""Where an unfinished data set lies, and how it takes its names.

Beside the prefix, small:

    PREFIX.build.tmp       what is being built (to be compared by a resume) and where its files
                           lie; locked while somebody builds
    PREFIX.commit.tmp      the renames that finish it: written when all files are on the disk

Beside the prefix too, or in the folder for temporary files, under one base name:

    BASE.bin.tmp, ...      the lanes, see `lanes`
    BASE.idx.tmp, ...      the small files, when everything is there

No name but `KIND.tmp` or `KIND-N.tmp` follows the prefix, so no data set `a.b` has a file that
could be one of `a`.

`.bin` takes its name first and `.idx` last; a data set without its `.idx` is not there. A build
that was killed between two renames is finished by the next one.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingot.converters.commit import encode, sync, writing
from ingot.converters.errors import OutputError
from ingot.converters.megatron.filenames import name_of, text_of
from ingot.converters.megatron.journal import FILES
from ingot.converters.rows import Json

LOCK_SECONDS: Final = 10.0  # processes of a killed build end by themselves within this time
_LOOK_SECONDS: Final = 0.1
_SHOWN: Final = 5
_LOCK: Final = "build"
_COMMIT: Final = "commit"
_KINDS: Final = (
    *(_LOCK, "order", _COMMIT, "probe", "journal", *FILES),
    *("idx", "mask_idx", "meta", "run", "merged_bin", "merged_mask", "merged_rejects"),
)
_ENDING: Final = re.compile(rf"\.({'|'.join(_KINDS)})(-[0-9]+)?\.tmp", re.ASCII)


@dataclass(kw_only=True, slots=True)
class Staging:
    """The place of an unfinished data set, locked.

    Attributes:
        prefix: where the data set is going to be.
        base: what its unfinished large files begin with.
        wanted: what those of a new build begin with.
        lock: descriptor of the lock; processes that write here inherit it.
        beside: why the folder for temporary files was not used; empty if it was, or none was named.
    """

    prefix: Path
    base: Path
    wanted: Path
    lock: int
    beside: str = ""

    def file(self, kind: str) -> Path:
        """An unfinished file: `BASE.KIND.tmp`."""
        return _file(self.base, kind)

    def identity(self) -> dict[str, Json] | None:
        """What is being built here, as the unfinished build noted it; None if there is none."""
        return _noted(self.prefix).get("identity")

    def begin(self, identity: dict[str, Json]) -> None:
        """Remove what is unfinished, and note what is to be built."""
        with writing(self.prefix):
            self.clear()
            # Files of another build must not come back beside this identity after a power cut.
            self._sync_folders()
            self.base = self.wanted
            noted = {"base": text_of(self.base.absolute()), "identity": identity}
            place = _file(self.prefix, _LOCK)
            place.write_bytes(encode(noted, sort_keys=False))
            sync(place)

    def clear(self) -> None:
        """Remove all unfinished files but the lock; the commit last, so that it can be finished."""
        last = [_file(self.prefix, kind) for kind in (_COMMIT, _LOCK)]
        for path in [*_unfinished(self.base), *_unfinished(self.prefix)]:
            if path not in last:
                path.unlink(missing_ok=True)
        last[0].unlink(missing_ok=True)

    def commit(self, renames: list[tuple[Path, Path]], stale: list[Path]) -> None:
        """Give files their names, the last of them making the data set be there.

        Args:
            renames: unfinished files that are on the disk, and their names, in order.
            stale: files of an older data set that go; new ones may have the same names.
        """
        for _, to in renames:
            if to.exists() and not to.is_file():
                raise OutputError(str(to), "is no file that can be replaced", "name another")
        with writing(self.prefix):
            order = {
                "stale": [text_of(path.absolute()) for path in stale],
                "renames": [[text_of(path.absolute()) for path in pair] for pair in renames],
            }
            written = _file(self.prefix, "order")
            written.write_bytes(encode(order))
            sync(written)
            written.replace(_file(self.prefix, _COMMIT))
            self._sync_folders()
            self.finish_commit()

    def finish_commit(self) -> bool:
        """Carry out a commit, also one that a killed build began; whether there was one."""
        order = _document(_file(self.prefix, _COMMIT))
        if not order:
            return False
        with writing(self.prefix):
            _rename_all(order)
            self._sync_folders()
            self.clear()
        return True

    def _sync_folders(self) -> None:
        for folder in {self.prefix.parent, self.base.parent}:
            sync(folder)


def _rename_all(order: dict[str, Json]) -> None:
    renames = [(Path(name_of(source)), Path(name_of(to))) for source, to in order["renames"]]
    left = [(source, to) for source, to in renames if source.exists()]
    # What was renamed before the build was killed is no file of an older data set.
    new = {to for source, to in renames if not source.exists()}
    gone = [path for path in map(Path, map(name_of, order["stale"])) if path not in new]
    if not left:
        return
    for path in gone:  # the old index first
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in gone}:
        sync(folder)
    for source, to in left:
        source.replace(to)


def _file(base: Path, kind: str) -> Path:
    return base.with_name(f"{base.name}.{kind}.tmp")


def _noted(prefix: Path) -> dict[str, Json]:
    """What the unfinished build noted, `{}` if there is none."""
    return _document(_file(prefix, _LOCK))


def _document(path: Path) -> dict[str, Json]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _unfinished(base: Path) -> list[Path]:
    """The unfinished files of a base, in no order."""
    if not base.parent.is_dir():
        return []
    return [
        path
        for path in base.parent.iterdir()
        if path.name.startswith(base.name) and _ENDING.fullmatch(path.name, len(base.name))
    ]


@contextmanager
def staging(prefix: Path, tmp_dir: Path | None) -> Iterator[Staging]:
    """The locked place of the unfinished data set of a prefix; its folder is made.

    An unfinished build is found where its files lie, whatever `tmp_dir` is now.

    Raises:
        OutputError: another build is at work on it; the folder cannot be written.
    """
    _check_name(prefix)
    with writing(prefix):
        prefix.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(_file(prefix, _LOCK), prefix)
        try:
            wanted, beside = _base(prefix, tmp_dir)
        except OSError:
            os.close(lock)
            raise
    base = _noted(prefix).get("base")
    place = Staging(
        prefix=prefix,
        base=wanted if base is None else Path(name_of(base)),
        wanted=wanted,
        lock=lock,
        beside=beside,
    )
    try:
        yield place
    finally:
        own = _file(prefix, _LOCK)
        if set(_unfinished(place.base)) | set(_unfinished(prefix)) <= {own}:
            own.unlink(missing_ok=True)
        os.close(lock)


def _check_name(prefix: Path) -> None:
    hint = "give a prefix such as out/corpus"
    if prefix.name in ("", ".."):
        raise OutputError(str(prefix), "names no data set", hint)
    if prefix.name.endswith(".loss_mask"):
        raise OutputError(str(prefix), "is a name for loss masks", hint)


def _base(prefix: Path, tmp_dir: Path | None) -> tuple[Path, str]:
    """What the large files begin with; and why they are not in the folder for temporary files."""
    if tmp_dir is None:
        return prefix, ""
    tmp_dir.mkdir(parents=True, exist_ok=True)
    place = hashlib.sha256(os.fsencode(prefix.absolute())).hexdigest()[:8]
    base = tmp_dir / f"{prefix.name}.{place}"
    probe = _file(base, "probe")
    probe.touch()
    try:
        # The only sure way to know: two mounts may be of one device.
        probe.replace(_file(prefix, "probe"))
    except OSError as error:
        probe.unlink()
        if error.errno != errno.EXDEV:
            raise
        return prefix, f"{tmp_dir} is on another file system than {prefix.parent}"
    _file(prefix, "probe").unlink()
    return base, ""


def _locked(path: Path, prefix: Path) -> int:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise OutputError(
                    str(prefix), "another build is writing it", "wait for it, or end it"
                ) from error
            time.sleep(_LOOK_SECONDS)
            continue
        if _still_named(path, descriptor):
            return descriptor
        os.close(descriptor)


def _still_named(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def difference(now: dict[str, Json], then: dict[str, Json]) -> str:
    """What differs between two identities, in words; empty if nothing does."""
    said = [_told(*one) for one in _differing(now, then, "")]
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return "; ".join(said[:_SHOWN]) + more


def _differing(now: Json, then: Json, name: str) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted(now.keys() | then.keys()):
            yield from _differing(now.get(key), then.get(key), f"{name}.{key}" if name else key)
        if name == "files" and now == then and [*now] != [*then]:
            yield "the order of the files", [*now], [*then]
    elif now != then:
        yield name, now, then


def _told(name: str, now: Json, then: Json) -> str:
    kind, _, file = name.partition(".")
    if kind == "changed" and now is not None and then is not None:
        return f"{file} was changed in between"  # nanoseconds tell nobody anything
    return f"{name} is {_said(now)}, was {_said(then)}"


def _said(value: Json) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
