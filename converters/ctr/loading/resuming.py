"""Where an epoch stands: what is delivered, what is left, as plain JSON in between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingot.converters.ctr.loading.batching import Plan, Run, Share, count, deal, remaining
from ingot.converters.ctr.loading.locating import Split

_VERSION: Final = 1
_HINT: Final = "make the loader as it was when the state was taken"


@dataclass(kw_only=True)
class Progress:
    """A pass through an epoch.

    Attributes:
        epoch: which.
        shares: the batches of each worker as the pass began.
        delivered: how many of them the caller has.
    """

    epoch: int
    shares: tuple[Share, ...]
    delivered: int = 0


def fresh(epoch: int, plan: Plan, workers: int) -> Progress:
    """The beginning of an epoch."""
    return Progress(epoch=epoch, shares=deal([(0, plan.batches)], max(workers, 1)))


def to_state(progress: Progress, plan: Plan, split: Split) -> dict[str, Any]:
    """A pass as JSON: `epoch`, the batches that `remain` by worker, what the order depends on."""
    left = remaining(progress.shares, progress.delivered)
    return {
        "version": _VERSION,
        "epoch": progress.epoch,
        "remaining": [[list(run) for run in share] for share in left],
        "settings": _settings(plan),
        "data": {
            "rows": split.rows,
            "files": len(split.files),
            "fingerprint": split.fingerprint,
        },
    }


def from_state(state: Mapping[str, Any], plan: Plan, split: Split, workers: int) -> Progress:
    """The pass that a state tells of, dealt anew if the number of workers is another.

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
    differences = [*_other_settings(settings, plan), *_other_data(data, split)]
    if differences:
        raise ValueError(f"state: {'; '.join(differences)}: {_HINT}")
    runs = sorted(run for share in shares for run in share)
    _hold(runs, plan)
    if epoch < 0 or not _dealt(shares):
        raise ValueError("state: not one of this loader's (epoch or the workers' batches)")
    if len(shares) != max(workers, 1):
        shares = deal(runs, max(workers, 1))
    return Progress(epoch=epoch, shares=shares)


def _run(run: Any) -> Run:  # noqa: ANN401
    start, stop = run
    return int(start), int(stop)


def _dealt(shares: tuple[Share, ...]) -> bool:
    """Whether workers can take turns: as many batches each, the first ones one more."""
    sizes = [count(share) for share in shares]
    return bool(sizes) and sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def _hold(runs: list[Run], plan: Plan) -> None:
    before = 0
    for start, stop in runs:
        if not before <= start < stop <= plan.batches:
            said = f"batches {start} to {stop} of {plan.batches}, or some of them twice"
            raise ValueError(f"state: not one of this loader's ({said})")
        before = stop


def _settings(plan: Plan) -> dict[str, Any]:
    names = ["batch_size", "drop_last", "rank", "world_size", "shuffle"]
    if plan.shuffle:
        names += ["seed", "window"]
    return {name: getattr(plan, name) for name in names}


def _other_settings(settings: Mapping[str, Any], plan: Plan) -> list[str]:
    mine = _settings(plan)
    names = {"window": "batches of a shuffle_buffer"}
    return [
        f"{names.get(name, name)} was {settings.get(name)!r}, is {mine.get(name)!r}"
        for name in dict.fromkeys([*mine, *settings])
        if settings.get(name) != mine.get(name)
    ]


def _other_data(data: Mapping[str, Any], split: Split) -> list[str]:
    if data.get("fingerprint") == split.fingerprint:
        return []
    was = f"{data.get('rows')} rows in {data.get('files')} files"
    return [f"the data was other: {was}, is {split.rows} rows in {len(split.files)} files"]
