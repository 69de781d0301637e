"""Imports: names of a package and functions that are imported when they are first used."""

import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final


class _NoPandas:
    """Refuses pandas, as a finder of modules; `None` in its place is used by compiled imports."""

    @staticmethod
    def find_spec(fullname: str, *_: object) -> None:
        """Raise an error for pandas; other finders know the other modules."""
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


_OBJECTS: Final = 100_000  # made since the last look for cycles; Python's own is 700


def prepare_process() -> None:
    """Hide pandas from pyarrow, and let Python look for cycles of objects less often.

    pyarrow would import pandas for its first array: 0.6 s and 49 MB in every process. Rows are many
    objects without cycles; looking for cycles at Python's pace takes a tenth of the time.
    """
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    gc.set_threshold(_OBJECTS)


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`.

    Args:
        package: its `__name__`.
        modules: for every name the module, relative to the package, that defines it.
    """

    def load(name: str) -> Any:  # noqa: ANN401 - any of them
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        return module if modules[name] == name else getattr(module, name)

    return load


@dataclass(frozen=True)
class LateFunction:
    """A function, `module:name`, whose module is imported when it is first called."""

    place: str

    def load(self) -> Callable[..., Any]:
        """Import the module and return the function."""
        module, _, name = self.place.partition(":")
        loaded = sys.modules.get(module) or import_module(module)
        function: Callable[..., Any] = getattr(loaded, name)
        return function

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - what it returns
        """Call the function."""
        return self.load()(*arguments, **named)
