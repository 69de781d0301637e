"""How long the ramp stays dry after high water."""

# SPDX-License-Identifier: CC0-1.0


def minutes_dry(height: float) -> int:
    """Minutes until the ramp is under water again; `height` in metres at high water."""
    return round(35 * (4.2 - height)) if height < 4.2 else 0
