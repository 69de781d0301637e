"""A file that says how to widen: the parameters of `MultiHot` under their names, JSON or YAML."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ingot.converters import yaml_text
from ingot.converters.contracts import violations
from ingot.converters.criteo.widening.parameters import FEATURE, UNIFORM, Parameters
from ingot.converters.errors import ParametersError, Problem

_LARGEST: Final = 1 << 20  # bytes of such a file


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a file says.

    Attributes:
        parameters: what decides the tables.
        collect: whether ids are counted.
    """

    parameters: Parameters
    collect: bool


def load(path: Path) -> Config:
    """Read a file of parameters; `schemas/multihot.schema.json` is its shape.

    Raises:
        ParametersError: it cannot be read, is against the schema, or contradicts itself.
    """
    document = _read(path)
    problems = list(_shape(document))
    if problems:
        raise ParametersError(str(path), tuple(problems))
    try:
        return _config(document)
    except ValueError as error:
        name, _, said = str(error).partition(": ")
        pointer = "/" + name.replace("[", "/").removesuffix("]")
        raise ParametersError(
            str(path), (Problem(pointer, "contradiction", "what docs/criteo.md says", said),)
        ) from error


def _read(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {_LARGEST >> 20} MiB: no file of parameters")
        return yaml_text.read(path.read_text("utf-8"))  # JSON is YAML
    except UnicodeDecodeError as error:
        raise _unreadable(path, "not UTF-8") from error
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())[:300]
        raise _unreadable(path, said) from error


def _unreadable(path: Path, said: str) -> ParametersError:
    problem = Problem("", "unreadable", "parameters", f"cannot be read: {said}")
    return ParametersError(str(path), (problem,))


def _shape(document: object) -> Iterator[Problem]:
    if not isinstance(document, dict):
        yield Problem("", "schema", "names and values", type(document).__name__)
        return
    for pointer, message in violations("multihot", document):
        yield Problem(pointer, "schema", "what docs/criteo.md says", message[:300])


def _config(document: dict[str, Any]) -> Config:
    """Of a document that the schema accepts."""
    parameters = Parameters.of(
        document["num_embeddings"],
        document.get("multi_hot_size"),
        document.get("multi_hot_min_table_size"),
        document.get("multi_hot_sizes"),
        document.get("multi_hot_distribution_type", UNIFORM),
        document.get("seeding", FEATURE),
    )
    return Config(
        parameters=parameters, collect=document.get("collect_multi_hot_freqs_stats", False)
    )
