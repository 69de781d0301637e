"""Part of a job for each of several machines: `--shard I/N`, and what puts the parts together.

Every part works in the unfinished result of the whole job, on storage that all machines share, and
leaves what it finished there. A run that merges finds all of it done and commits what one machine
would have written.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from ingot.converters.errors import OutputError
from ingot.converters.settings import Setting

COMMAND_KIND: Final = "command"  # of an unfinished file beside a prefix
COMMAND_FILE: Final = f"{COMMAND_KIND}.json"  # in the work of an unfinished folder
JOB_FILE: Final = "job.json"  # beside that: what decides the bytes of the job
OTHER_PARTS: Final = "the parts of another job lie there"
OTHER_PARTS_HINT: Final = "finish that job as it was begun (`ingot merge`), or choose another place"
LAKE_FOLDER: Final = ".ingot-lake"  # what a lake remembers, in its output folder
MERGE: Final = "merge"
SCALE: Final = "Scale"


@dataclass(frozen=True, slots=True)
class JobShard:
    """Part `number` (from 0) of `count`; without a count: what merges the parts."""

    number: int = 0
    count: int = 0

    @property
    def merges(self) -> bool:
        """Return whether the job only merges finished parts."""
        return not self.count

    def __str__(self) -> str:
        return MERGE if self.merges else f"{self.number}/{self.count}"

    def own(self, sizes: Sequence[int]) -> range:
        """Return the tasks of this part: neighbours, about as many bytes as other parts have.

        Those of what merges are all. `sizes` are the bytes of each task of the job, in order.
        """
        if self.merges:
            return range(len(sizes))
        ends = list(accumulate(max(1, size) for size in sizes))
        middles = [end - max(1, size) / 2 for end, size in zip(ends, sizes, strict=True)]
        total = ends[-1] if ends else 0
        first, last = (
            bisect_left(middles, total * number / self.count)
            for number in (self.number, self.number + 1)
        )
        return range(first, last)


def parse_shard(text: str) -> JobShard:
    """Read `3/8`, or `merge`. Raises ValueError."""
    if text == MERGE:
        return JobShard()
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise ValueError(f"{text!r} is not I/N with I from 0 to N-1, such as 0/8")
    return JobShard(int(number), int(count))


Shard: TypeAlias = Annotated[
    JobShard | None,
    Setting(
        "Do part I (from 0) of N of the job, on storage that all parts share; `ingot merge` then "
        "puts them together.",
        metavar="I/N",
        section=SCALE,
        parse=parse_shard,
        default="the whole job",
    ),
]
RunnerName: TypeAlias = Annotated[
    Literal["local", "processes", "ray"],
    Setting(
        "Who does the work: this process (local), several on this machine, or a Ray cluster.",
        section=SCALE,
    ),
]
RayAddress: TypeAlias = Annotated[
    str | None,
    Setting(
        "Address of the Ray cluster, such as ray://HOST:10001 or auto.",
        metavar="ADDRESS",
        section=SCALE,
        default="RAY_ADDRESS, or a cluster of this machine",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Who does the pieces of a job; see `pieces.run_phase`."""

    runner: RunnerName = "local"
    workers: Annotated[
        int | None,
        Setting(
            "Number of processes; given alone, it says `runner` processes.",
            metavar="N",
            section=SCALE,
            minimum=1,
            default="one per core, at most one per file",
        ),
    ] = None
    shard: Shard = None
    ray_address: RayAddress = None
    tmp_dir: Annotated[
        Path | None,
        Setting(
            "Folder for what is unfinished of a result in an object store; with several machines "
            "one that all of them share.",
            metavar="DIR",
            section=SCALE,
            default="a folder of this user in the system's temporary one",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.workers and self.runner == "local":
            object.__setattr__(self, "runner", "processes")

    @property
    def is_any(self) -> bool:
        """Return whether the job is done in pieces; else this process does it as a whole."""
        return self.runner != "local" or self.shard is not None


WHOLE: Final = Spread()  # this process does the job as a whole


def part_of_job(shard: JobShard | None) -> JobShard | None:
    """Return the part of a job that is to be done; None: all of it is, or its parts are merged."""
    return None if shard is None or shard.merges else shard


def own_tasks(shard: JobShard | None, sizes: Sequence[int]) -> range:
    """Return the tasks that a run has to see done: without parts the job is one of all tasks."""
    return (shard or JobShard()).own(sizes)


def other_parts_error(out: Path, differs: str) -> OutputError:
    """Return the error for parts of another job that lie where a job is to begin."""
    hint = f"{OTHER_PARTS_HINT}, or replace them with `overwrite`"
    return OutputError(str(out), f"{OTHER_PARTS}: {differs}", hint)


def note_job(folder: Path, document: Mapping[str, object]) -> None:
    """Note a job and its command line in the folder where its parts work, if nobody has yet."""
    from ingot.converters.output.files import encode_json, write_file

    if not (folder / JOB_FILE).exists():
        write_file(folder / COMMAND_FILE, command_document())
        write_file(folder / JOB_FILE, encode_json(document))


_COMMAND: Final[list[str]] = []  # the words behind `ingot`; none where Python began the job


def state_command(words: Sequence[str]) -> None:
    """State the command line of this process, which a merge of its parts repeats."""
    _COMMAND[:] = words


def command_document() -> bytes:
    """Return the command line of this process and its folder as JSON; null for one of Python."""
    from ingot.converters.output.files import encode_json

    return encode_json({"arguments": _COMMAND or None, "folder": str(Path.cwd())})


def check_complete(folder: Path | str, missing: Sequence[int], total: int) -> None:
    """Refuse to merge where tasks of the job are not done. Raises OutputError."""
    if missing:
        problem = f"{len(missing):,} of {total:,} pieces are not done, the first is {missing[0]:,}"
        hint = "run the parts again (`--shard I/N`): what they finished is kept; then merge"
        raise OutputError(str(folder), problem, hint)
