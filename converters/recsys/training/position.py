"""The position in an epoch: what was delivered, what remains, and both as a `state_dict`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ingot.converters.recsys.training.batch_order import (
    BatchRun,
    Share,
    count_batches,
    deal_batches,
    remaining_shares,
)

_VERSION: Final = 1
_FOREIGN: Final = "state: it was not written by this loader"


@dataclass(frozen=True, kw_only=True)
class EpochPlan:
    """What the batches of an epoch depend on.

    Attributes:
        data: `rows`, `files` and a `fingerprint` of what is read.
    """

    batches: int
    streams: int
    settings: Mapping[str, Any]
    data: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class EpochProgress:
    """A pass through an epoch."""

    epoch: int
    shares: tuple[Share, ...]
    delivered: int = 0


def start_epoch(epoch: int, plan: EpochPlan) -> EpochProgress:
    """Return the beginning of an epoch."""
    return EpochProgress(epoch=epoch, shares=deal_batches([(0, plan.batches)], plan.streams))


def progress_state(progress: EpochProgress, plan: EpochPlan) -> dict[str, Any]:
    """Return a pass as JSON: the epoch, its `remaining` batches by stream, settings and data."""
    left = remaining_shares(progress.shares, progress.delivered)
    return {
        "version": _VERSION,
        "epoch": progress.epoch,
        "remaining": [[list(run) for run in share] for share in left],
        "settings": dict(plan.settings),
        "data": dict(plan.data),
    }


def restore_progress(state: Mapping[str, Any], plan: EpochPlan) -> EpochProgress:
    """Return the pass of a state; its batches are dealt anew to another number of streams."""
    try:
        version, epoch = state["version"], int(state["epoch"])
        settings, data = dict(state["settings"]), dict(state["data"])
        shares = tuple(tuple(_parse_run(run) for run in share) for share in state["remaining"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_FOREIGN} ({error!r})") from error
    if version != _VERSION:
        raise ValueError(f"state: its version is {version!r}, this loader reads {_VERSION}")
    differences = [*_settings_differences(settings, plan), *_data_differences(data, plan.data)]
    if differences:
        hint = "create the loader as it was when the state was saved"
        raise ValueError(f"state: {'; '.join(differences)}: {hint}")
    runs = sorted(run for share in shares for run in share)
    _check_runs(runs, plan.batches)
    sizes = [count_batches(share) for share in shares]
    even = sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1 if sizes else False
    if epoch < 0 or not even:  # streams that take turns have as many batches, the first one more
        raise ValueError(f"{_FOREIGN} (epoch or the batches of the workers)")
    if len(shares) != plan.streams:
        shares = deal_batches(runs, plan.streams)
    return EpochProgress(epoch=epoch, shares=shares)


def _parse_run(run: Any) -> BatchRun:  # noqa: ANN401
    start, stop = run
    return int(start), int(stop)


def _check_runs(runs: list[BatchRun], batches: int) -> None:
    before = 0
    for start, stop in runs:
        if not before <= start < stop <= batches:
            problem = f"batches {start} to {stop} of {batches}, or some of them twice"
            raise ValueError(f"{_FOREIGN} ({problem})")
        before = stop


def _settings_differences(settings: Mapping[str, Any], plan: EpochPlan) -> list[str]:
    current = plan.settings
    return [
        f"{plan.names.get(name, name)} was {settings.get(name)!r}, is {current.get(name)!r}"
        for name in dict.fromkeys([*current, *settings])
        if settings.get(name) != current.get(name)
    ]


def _data_differences(data: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    if data.get("fingerprint") == current["fingerprint"]:
        return []
    was = f"{data.get('rows')} rows in {data.get('files')} files"
    now = f"{current['rows']} rows in {current['files']} files"
    return [f"the data were {was}, are {now}"]
