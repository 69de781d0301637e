"""ingot converts raw data sets into records that training reads, by way of one reviewed mapping."""

from typing import TYPE_CHECKING

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.api import Proposal, check, convert, propose, records, review, tokens
    from ingot.converters.convert.job import Result
    from ingot.converters.convert.options import ConvertOptions
    from ingot.converters.errors import IngotError
    from ingot.hub import push_to_hub
    from ingot.results import load

_MODULES = {
    **dict.fromkeys(("Proposal", "check", "convert"), "api"),
    **dict.fromkeys(("propose", "records", "review", "tokens"), "api"),
    "ConvertOptions": "converters.convert.options",
    "IngotError": "converters.errors",
    "Result": "converters.convert.job",
    "load": "results",
    "push_to_hub": "hub",
}
__all__ = [
    "ConvertOptions",
    "IngotError",
    "Proposal",
    "Result",
    "check",
    "convert",
    "load",
    "propose",
    "push_to_hub",
    "records",
    "review",
    "tokens",
]
__version__ = "0.1.0"

__getattr__ = lazy_names(__name__, _MODULES)
