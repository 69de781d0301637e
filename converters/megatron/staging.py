"""Where an unfinished data set lies, and how it takes its names.

Beside the prefix, or in the folder for temporary files, all under one base name:

    BASE.build.tmp      what is being built (to be compared by a resume), locked while it is
    BASE.bin.tmp, ...   the lanes, see `lanes`
    BASE.idx.tmp, ...   the small files, when everything is there
    BASE.commit.tmp     the renames that finish it: written when all files are on the disk

`.bin` takes its name first and `.idx` last; a data set without its `.idx` is not there. A build
that was killed between two renames is finished by the next one.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingot.converters.commit import encode, sync, write_file, writing
from ingot.converters.errors import OutputError
from ingot.converters.rows import Json

LOCK_SECONDS: Final = 10.0  # processes of a killed build end by themselves within this time
_LOOK_SECONDS: Final = 0.1
_SHOWN: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Staging:
    """The place of an unfinished data set, locked.

    Attributes:
        prefix: where the data set is going to be.
        base: what all its unfinished files begin with.
        lock: descriptor of the lock; processes that write here inherit it.
        beside: why the folder for temporary files was not used; empty if it was, or none was named.
    """

    prefix: Path
    base: Path
    lock: int
    beside: str = ""

    def file(self, kind: str) -> Path:
        """An unfinished file: `BASE.KIND.tmp`."""
        return self.base.with_name(f"{self.base.name}.{kind}.tmp")

    def identity(self) -> dict[str, Json] | None:
        """What is being built here, as the unfinished build noted it; None if there is none."""
        try:
            document = json.loads(self.file("build").read_bytes())
        except (OSError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def begin(self, identity: dict[str, Json]) -> None:
        """Remove what is unfinished, and note what is to be built."""
        with writing(self.prefix):
            self.clear()
            self.file("build").write_bytes(encode(identity))

    def clear(self) -> None:
        """Remove all unfinished files but the lock."""
        for path in _unfinished(self.base):
            if path != self.file("build"):
                path.unlink(missing_ok=True)

    def commit(self, renames: list[tuple[Path, Path]], stale: list[Path]) -> None:
        """Give files their names, the last of them making the data set be there.

        Args:
            renames: unfinished files that are on the disk, and their names, in order.
            stale: files of an older data set that go.
        """
        with writing(self.prefix):
            order = {
                "stale": [_text(path) for path in stale],
                "renames": [[_text(source), _text(to)] for source, to in renames],
            }
            write_file(self.file("commit"), encode(order))
            self.finish_commit()

    def finish_commit(self) -> bool:
        """Carry out a commit, also one that a killed build began; whether there was one."""
        try:
            order = json.loads(self.file("commit").read_bytes())
        except (OSError, ValueError):
            return False
        with writing(self.prefix):
            if any(_path(source).exists() for source, _ in order["renames"]):
                for name in order["stale"]:
                    _path(name).unlink(missing_ok=True)
            for source, to in order["renames"]:
                with suppress(FileNotFoundError):
                    _path(source).replace(_path(to))
            sync(self.prefix.parent)
            self.clear()
        return True


def _text(path: Path) -> str:
    return os.fsencode(path.absolute()).decode("latin-1")


def _path(text: str) -> Path:
    return Path(os.fsdecode(text.encode("latin-1")))


def _unfinished(base: Path) -> list[Path]:
    head = f"{base.name}."
    return [
        path
        for path in base.parent.iterdir()
        if path.name.startswith(head) and path.name.endswith(".tmp") and _own(path.name, head)
    ]


def _own(name: str, head: str) -> bool:
    """Whether an unfinished file is this base's: `a.b.bin.tmp` is the base `a.b`'s, not `a`'s."""
    kind = name.removeprefix(head).removesuffix(".tmp")
    lane, _, rest = kind.partition(".")
    if lane.startswith("lane-") and lane.removeprefix("lane-").isdecimal():
        kind = rest
    return kind in _KINDS


_KINDS: Final = frozenset(
    (
        *("build", "commit", "plan", "journal", "bin", "lengths", "documents", "loss_mask.bin"),
        *("rejects", "idx", "loss_mask.idx", "meta.json", "run.json"),
        *("merged.bin", "merged.loss_mask.bin", "merged.rejects"),
    )
)


@contextmanager
def staging(prefix: Path, tmp_dir: Path | None) -> Iterator[Staging]:
    """The locked place of the unfinished data set of a prefix; its folder is made.

    Raises:
        OutputError: another build is at work on it; the folder cannot be written.
    """
    if not prefix.name:
        raise OutputError(str(prefix), "names no data set", "give a prefix such as out/corpus")
    with writing(prefix):
        prefix.parent.mkdir(parents=True, exist_ok=True)
        if tmp_dir is not None:
            tmp_dir.mkdir(parents=True, exist_ok=True)
        base, beside = _base(prefix, tmp_dir)
        lock = _locked(base.with_name(f"{base.name}.build.tmp"), prefix)
    place = Staging(prefix=prefix, base=base, lock=lock, beside=beside)
    try:
        yield place
    finally:
        if _unfinished(base) == [place.file("build")]:
            place.file("build").unlink()
        os.close(lock)


def _base(prefix: Path, tmp_dir: Path | None) -> tuple[Path, str]:
    if tmp_dir is None:
        return prefix, ""
    if tmp_dir.stat().st_dev != prefix.parent.stat().st_dev:
        return prefix, f"{tmp_dir} is on another file system than {prefix.parent}"
    place = hashlib.sha256(os.fsencode(prefix.absolute())).hexdigest()[:8]
    return tmp_dir / f"{prefix.name}.{place}", ""


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
    said = [f"{name} is {_said(a)}, was {_said(b)}" for name, a, b in _differing(now, then, "")]
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return "; ".join(said[:_SHOWN]) + more


def _differing(now: Json, then: Json, name: str) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted(now.keys() | then.keys()):
            yield from _differing(now.get(key), then.get(key), f"{name}.{key}" if name else key)
    elif now != then:
        yield name, now, then


def _said(value: Json) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
