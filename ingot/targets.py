"""The registry of targets: the forms that training reads, and what builds each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from ingot.converters.errors import ConversionError


@dataclass(frozen=True, kw_only=True)
class Target:
    """A form that training reads.

    Attributes:
        build: `module:function` that builds it; imported when the target is first used, so that a
            build of one target imports no other.
        extra: the extra of ingot that installs the libraries which only this target needs.
    """

    makes: str
    build: str
    extra: str | None = None
    schemas: tuple[str, ...] = ()

    def load(self) -> Callable[..., Any]:
        """Return the function that builds the target."""
        module, _, name = self.build.partition(":")
        try:
            function: Callable[..., Any] = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("ingot") or self.extra is None:
                raise
            hint = f"install ingot[{self.extra}]"
            raise ConversionError(
                "", f"needs {error.name}, which is not installed", hint
            ) from error
        return function


_RECSYS: Final = "ingot.converters.recsys"
TARGETS: Final[dict[str, Target]] = {
    "records": Target(
        makes="ingot records for pre-training (pt) and fine-tuning (sft)",
        build="ingot.converters.convert.job:convert",
        schemas=("mapping", "manifest", "record.pt", "record.sft"),
    ),
    "megatron": Target(
        makes="Megatron .bin/.idx files", build="ingot.converters.megatron.run.build:build"
    ),
    "ctr": Target(
        makes="Parquet with the processed CTR contract",
        build=f"{_RECSYS}.ctr.build.job:build",
        extra="recsys",
        schemas=("featuremap",),
    ),
    "criteo": Target(
        makes="NumPy arrays of Criteo logs",
        build=f"{_RECSYS}.criteo.preprocess.job:preprocess",
        extra="recsys",
        schemas=("multihot",),
    ),
    "monolith": Target(
        makes="streams of Monolith's messages, or tables of them",
        build=f"{_RECSYS}.monolith.convert.job:convert",
        extra="recsys",
        schemas=("monolith_table",),
    ),
}
