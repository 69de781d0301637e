"""Where an epoch stands: what is delivered, what is left, as plain JSON in between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingot.converters.loading.dealing import Run, Share, count, deal, remaining

_VERSION: Final = 1
_HINT: Final = "make the loader as it was when the state was taken"


@dataclass(frozen=True, kw_only=True)
class Course:
    """What the batches of an epoch depend on.

    Attributes:
        batches: of an epoch, on this rank.
        streams: that deliver them in turn.
        settings: arguments that batches and order depend on; plain JSON.
        data: `rows`, `files` and a `fingerprint` of what is read.
        names: how messages call settings, where not by their keys.
    """

    batches: int
    streams: int
    settings: Mapping[str, Any]
    data: Mapping[str, Any]
    names: Mapping[str, str]


@dataclass(kw_only=True)
class Progress:
    """A pass through an epoch.

    Attributes:
        epoch: which.
        shares: the batches of each stream as the pass began.
        delivered: how many of them the caller has.
    """

    epoch: int
    shares: tuple[Share, ...]
    delivered: int = 0


def fresh(epoch: int, course: Course) -> Progress:
    """The beginning of an epoch."""
    return Progress(epoch=epoch, shares=deal([(0, course.batches)], course.streams))


def to_state(progress: Progress, course: Course) -> dict[str, Any]:
    """A pass as JSON: `epoch`, the batches that `remain` by stream, what the order depends on."""
    left = remaining(progress.shares, progress.delivered)
    return {
        "version": _VERSION,
        "epoch": progress.epoch,
        "remaining": [[list(run) for run in share] for share in left],
        "settings": dict(course.settings),
        "data": dict(course.data),
    }


def from_state(state: Mapping[str, Any], course: Course) -> Progress:
    """The pass that a state tells of, dealt anew if the number of streams is another.

    Raises:
        ValueError: no such state, or one of other data or settings; all differences are named.
    """
    try:
        version, epoch = state["version"], int(state["epoch"])
        settings, data = dict(state["settings"]), dict(state["data"])
        shares = tuple(tuple(_run(run) for run in share) for share in state["remaining"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"state: not one of this loader's ({error!r})") from error
    if version != _VERSION:
        raise ValueError(f"state: version {version!r}, this loader writes {_VERSION}")
    differences = [*_other_settings(settings, course), *_other_data(data, course.data)]
    if differences:
        raise ValueError(f"state: {'; '.join(differences)}: {_HINT}")
    runs = sorted(run for share in shares for run in share)
    _hold(runs, course.batches)
    if epoch < 0 or not _dealt(shares):
        raise ValueError("state: not one of this loader's (epoch or the workers' batches)")
    if len(shares) != course.streams:
        shares = deal(runs, course.streams)
    return Progress(epoch=epoch, shares=shares)


def _run(run: Any) -> Run:  # noqa: ANN401
    start, stop = run
    return int(start), int(stop)


def _dealt(shares: tuple[Share, ...]) -> bool:
    """Whether streams can take turns: as many batches each, the first ones one more."""
    sizes = [count(share) for share in shares]
    return bool(sizes) and sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def _hold(runs: list[Run], batches: int) -> None:
    before = 0
    for start, stop in runs:
        if not before <= start < stop <= batches:
            said = f"batches {start} to {stop} of {batches}, or some of them twice"
            raise ValueError(f"state: not one of this loader's ({said})")
        before = stop


def _other_settings(settings: Mapping[str, Any], course: Course) -> list[str]:
    mine = course.settings
    return [
        f"{course.names.get(name, name)} was {settings.get(name)!r}, is {mine.get(name)!r}"
        for name in dict.fromkeys([*mine, *settings])
        if settings.get(name) != mine.get(name)
    ]


def _other_data(data: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    if data.get("fingerprint") == mine["fingerprint"]:
        return []
    was = f"{data.get('rows')} rows in {data.get('files')} files"
    return [f"the data was other: {was}, is {mine['rows']} rows in {mine['files']} files"]
