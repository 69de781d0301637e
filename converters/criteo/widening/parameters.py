"""What decides the tables of a multi-hot conversion."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from ingot.converters.criteo.kjt_checks import checked_sizes
from ingot.converters.loading.ranks import whole
from ingot.converters.rows import Json

UNIFORM, PARETO = "uniform", "pareto"
DISTRIBUTIONS: Final = (UNIFORM, PARETO)
FEATURE, GLOBAL0 = "feature", "global0"
SEEDINGS: Final = (FEATURE, GLOBAL0)
VERSION: Final = 1
"""Of how tables follow from parameters, for those that are kept."""
MOST_IDS: Final = 1 << 20
"""The most ids of a cell: far more than anybody wants, few enough for sums of them."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Checked parameters of F features; equal ones make equal tables.

    Attributes:
        num_embeddings: the ids of each feature are below it.
        sizes: ids that a cell of each feature gets; 1 leaves it as it is.
        distribution: uniform | pareto, of the ids that are added.
        seeding: feature: the table of feature k is drawn with the seed k; global0: all tables one
            after another with the seed 0.
    """

    num_embeddings: tuple[int, ...]
    sizes: tuple[int, ...]
    distribution: str
    seeding: str

    @classmethod
    def of(
        cls,
        num_embeddings: Sequence[int],
        multi_hot_size: int | None,
        multi_hot_min_table_size: int | None,
        multi_hot_sizes: Sequence[int] | None,
        multi_hot_distribution_type: str,
        seeding: str,
    ) -> "Parameters":
        """Parameters as `MultiHot` takes them.

        Raises:
            ValueError: one that cannot be, or two that exclude each other.
        """
        rows = checked_sizes(num_embeddings, len(num_embeddings))
        if not rows:
            raise ValueError("num_embeddings: give one size for each feature")
        one_of("multi_hot_distribution_type", multi_hot_distribution_type, DISTRIBUTIONS)
        one_of("seeding", seeding, SEEDINGS)
        given = (multi_hot_size is not None, multi_hot_min_table_size is not None)
        if multi_hot_sizes is None:
            sizes = _by_table_size(rows, multi_hot_size, multi_hot_min_table_size)
        elif any(given):
            said = "they say which features get how many ids"
            raise ValueError(f"multi_hot_sizes: {said}: give no other size beside them")
        else:
            sizes = _by_feature(rows, multi_hot_sizes)
        return cls(
            num_embeddings=tuple(rows),
            sizes=tuple(sizes),
            distribution=multi_hot_distribution_type,
            seeding=seeding,
        )

    @property
    def widened(self) -> list[int]:
        """The features whose cells get more than one id."""
        return [place for place, size in enumerate(self.sizes) if size > 1]

    @property
    def table_bytes(self) -> int:
        """Of the tables: int32."""
        return sum(4 * self.num_embeddings[place] * self.sizes[place] for place in self.widened)

    def to_json(self) -> dict[str, Json]:
        """For a manifest."""
        document = asdict(self)
        return {**document, "num_embeddings": list(self.num_embeddings), "sizes": list(self.sizes)}

    def digest(self) -> str:
        """A name for the tables."""
        document = json.dumps({**self.to_json(), "version": VERSION}, sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    """See that an argument is one of some words.

    Raises:
        ValueError: it is not.
    """
    if value not in known:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(known)}")


def _by_table_size(rows: list[int], size: int | None, least: int | None) -> list[int]:
    if size is None or least is None:
        said = "give multi_hot_size and multi_hot_min_table_size, or multi_hot_sizes"
        raise ValueError(f"multi_hot_size: it is not said which features get how many ids: {said}")
    size = whole("multi_hot_size", size, 1, MOST_IDS)
    least = whole("multi_hot_min_table_size", least, 0)
    return [size if count >= least else 1 for count in rows]


def _by_feature(rows: list[int], sizes: Sequence[int]) -> list[int]:
    if len(sizes) != len(rows):
        said = f"{len(sizes)} sizes, and num_embeddings has {len(rows)} features"
        raise ValueError(f"multi_hot_sizes: {said}: give one for each")
    return [
        whole(f"multi_hot_sizes[{place}]", size, 1, MOST_IDS) for place, size in enumerate(sizes)
    ]
