"""The rules on labels and row numbers, batch by batch."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr import contract
from ingot.converters.ctr.checking.cells import Lists, Scalars
from ingot.converters.ctr.checking.findings import At, Findings, Mask
from ingot.converters.ctr.contract import Profile

Columns = dict[str, Scalars | Lists]


@dataclass(kw_only=True)
class RowRules:
    """Checks the labels and row numbers of one split.

    Attributes:
        profile: what the files say of themselves, None where they say nothing.
        found: takes what is wrong.
    """

    profile: Profile | None
    found: Findings
    _last: int = field(default=-1, init=False)

    def check(self, columns: Columns, at: At) -> None:
        """Checks a batch; batches come in the order of the split."""
        self._nulls(columns, at)
        self._binary(columns, at)
        self._products(columns, at)
        self._click_mask(columns, at)
        self._funnel(columns, at)
        row_ids = _scalars(columns, contract.ROW_ID)
        if self.profile and row_ids is not None and len(row_ids.values):
            self._rising(row_ids, at)

    def _nulls(self, columns: Columns, at: At) -> None:
        for name in contract.REQUIRED:
            one = columns.get(name)
            if one is not None and one.null is not None:
                self.found.rows("R5.1", at, name, one.null, lambda _: "null")

    def _binary(self, columns: Columns, at: At) -> None:
        for name in contract.LABELS:
            one = _scalars(columns, name)
            if one is not None:
                values = one.values
                self.found.rows(
                    "R1.4", at, name, one.present(~_is_binary(values)), values.__getitem__
                )

    def _products(self, columns: Columns, at: At) -> None:
        """y_ctcvr, where all three are 0 or 1."""
        names = ("y_ctr", "y_cvr", "y_ctcvr")
        if (labels := _binaries(columns, *names)) is None:
            return
        (ctr, cvr, both), good = labels
        self.found.rows(
            "R1.5",
            at,
            "y_ctcvr",
            good & (both != ctr * cvr),
            lambda i: f"{both[i]:g} at y_ctr {ctr[i]:g}, y_cvr {cvr[i]:g}",
        )

    def _click_mask(self, columns: Columns, at: At) -> None:
        if self.profile is None or (labels := _binaries(columns, "y_ctr", "click_mask")) is None:
            return
        (ctr, mask), good = labels
        exposed = self.profile.click_mask == "exposed"
        self.found.rows(
            "R1.6",
            at,
            "click_mask",
            good & (mask != (1 if exposed else ctr)),
            lambda i: (
                f"{mask[i]:g} at y_ctr {ctr[i]:g}, the profile is "
                f"{'exposed' if exposed else 'clicked'}"
            ),
        )

    def _funnel(self, columns: Columns, at: At) -> None:
        if self.profile is None or self.profile.funnel == "keep":
            return
        if (labels := _binaries(columns, "y_ctr", "y_cvr")) is None:
            return
        (ctr, cvr), good = labels
        policy = self.profile.funnel
        self.found.rows(
            "R1.7",
            at,
            "y_cvr",
            good & (cvr == 1) & (ctr == 0),
            lambda _: f"1 at y_ctr 0, the profile says {policy}",
        )

    def _rising(self, row_ids: Scalars, at: At) -> None:
        ids: NDArray[np.int64] = row_ids.values
        before = np.empty_like(ids)
        before[0] = self._last
        before[1:] = ids[:-1]
        bad = row_ids.present((ids <= before) | (ids < 0))
        self.found.rows("R1.9", at, contract.ROW_ID, bad, lambda i: f"{ids[i]} after {before[i]}")
        self._last = int(ids[-1])


def _scalars(columns: Columns, name: str) -> Scalars | None:
    one = columns.get(name)
    return one if isinstance(one, Scalars) else None


def _is_binary(values: NDArray[np.float32]) -> Mask:
    binary: Mask = (values == 0) | (values == 1)
    return binary


def _binaries(columns: Columns, *names: str) -> tuple[tuple[NDArray[np.float32], ...], Mask] | None:
    """Label columns, and the rows where all of them are 0 or 1; None if one is not there."""
    found = [_scalars(columns, name) for name in names]
    there = [one for one in found if one is not None]
    if len(there) < len(names):
        return None
    good = np.ones(len(there[0].values), np.bool_)
    for one in there:
        good &= one.present(_is_binary(one.values))
    return tuple(one.values for one in there), good
