"""ingot converts raw data sets into records that training reads, by way of one reviewed mapping."""

from typing import TYPE_CHECKING

from ingot.imports import install_moved as _install_moved
from ingot.imports import lazy_names

if TYPE_CHECKING:
    from ingot.api import check, convert, load, propose

__all__ = ["check", "convert", "load", "propose"]
__version__ = "0.1.0"

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "api"))
_install_moved()
