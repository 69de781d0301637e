"""Compile kernels to machine code with numba, and cache the code for the next process.

The cache lies in the folder that `NUMBA_CACHE_DIR` names, else beside this module, else in the
user's cache (`$XDG_CACHE_HOME/ingot/kernels`). All of them are read; the first that can be written
to is written to. A cached file is named after what its machine code depends on: the kernel, all
kernels that it calls, the constants they use, the types of the arguments, the CPU, Python, numba.
"""

import atexit
import gc
import hashlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, NoReturn
from uuid import uuid4

from ingot.converters.errors import ConversionError

_SECONDS: Final = 0.6  # that one kernel takes to compile, on average
_STALE: Final = 30 * 86400  # seconds after which machine code of a former version is removed


class _Announcer:
    """Says once in a process that kernels are compiled."""

    def __init__(self) -> None:
        self.caches: list[_KernelCache] = []
        self.say: Callable[[str], object] | None = None
        self.of_command = False

    def announce(self, codegen: Any) -> None:  # noqa: ANN401 - numba's
        """Say how long it takes to compile the kernels that are not cached."""
        if self.say:
            say, self.say = self.say, None
            names = {path.name[: -len("-0123456789abcdef.nbc")] for path in cached_files()}
            cold = sum(cache.file_stem(codegen) not in names for cache in self.caches)
            say(f"compiling kernels (once, about {max(1, round(cold * _SECONDS))} s)")


_ANNOUNCER: Final = _Announcer()


def announce_compiling(say: Callable[[str], object]) -> None:
    """Call `say` with one line when the first kernel is compiled that the cache does not hold.

    A command does this: in its process, packages that extend numba (awkward) are not imported.
    """
    _ANNOUNCER.say, _ANNOUNCER.of_command = say, True


def cache_folders() -> list[Path]:
    """Return the folders that are read for machine code, in the order in which they are tried."""
    import numba

    chosen = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(chosen) / "ingot" if chosen else Path(__file__).parent / "__pycache__"
    return [folder, Path(user) / "ingot" / "kernels"]


def cached_files() -> Iterable[Path]:
    """Return the files that hold machine code of kernels."""
    return (path for folder in cache_folders() for path in folder.glob("*.nbc"))


def open_cache() -> None:
    """Let all users of this machine read the cached machine code."""
    for path in cached_files():
        with suppress(OSError):  # another user's
            path.chmod(0o644)
            path.parent.chmod(0o755)


class _KernelCache:
    """The machine code of one kernel on disk: what numba's dispatcher asks for a cache."""

    def __init__(self, function: FunctionType, allocates: bool) -> None:
        self._function, self._allocates = function, allocates
        self._name = f"{function.__module__.removeprefix('ingot.converters.')}.{function.__name__}"

    @property
    def cache_path(self) -> str:
        """Return the folder that is tried first."""
        return str(cache_folders()[0])

    def file_stem(self, codegen: Any) -> str:  # noqa: ANN401 - numba's
        """Return the name of its files, up to the digest of the argument types."""
        import numba

        facts = numba.__version__, sys.version, codegen.magic_tuple(), self._allocates
        parts = [repr(facts), *_source_parts(self._function, set())]
        return f"{self._name}-{_short_digest(parts)}"

    def load_overload(self, signature: object, target: Any) -> object:  # noqa: ANN401
        """Return the kernel compiled for argument types; None if it is not cached."""
        from numba.core.compiler import CompileResult

        rebuild: Callable[..., object] = CompileResult._rebuild
        target.refresh()
        name = self._file_name(signature, target.codegen())
        for folder in cache_folders():
            with suppress(OSError, EOFError, ImportError, AttributeError, pickle.UnpicklingError):
                payload = pickle.loads((folder / name).read_bytes())  # noqa: S301 - our own
                return rebuild(target, *payload)
        _ANNOUNCER.announce(target.codegen())
        return None

    def save_overload(self, signature: object, result: Any) -> None:  # noqa: ANN401
        """Write a compiled kernel where that is possible."""
        from numba.core import serialize

        dumps: Callable[[object], bytes] = serialize.dumps
        if result.library.has_dynamic_globals:
            return
        name, data = self._file_name(signature, result.codegen), dumps(result._reduce())
        for folder in cache_folders():
            temporary = folder / f".{uuid4().hex}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                temporary.write_bytes(data)
                temporary.replace(folder / name)
            except OSError:
                continue
            for path in folder.glob(f"{self._name}-*.nbc"):
                with suppress(OSError):
                    if path.name != name and time.time() - path.stat().st_mtime > _STALE:
                        path.unlink()
            return

    def flush(self) -> None:
        """Do nothing: machine code is never stale."""

    def _file_name(self, signature: Any, codegen: Any) -> str:  # noqa: ANN401
        kinds = getattr(signature, "args", signature)
        # The text of a structure's type does not name its fields.
        texts = [f"{kind!r} {getattr(kind, 'fields', '')}" for kind in kinds]
        return f"{self.file_stem(codegen)}-{_short_digest(texts)}.nbc"


def _short_digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _source_parts(function: FunctionType, seen: set[int]) -> Iterator[str]:
    """Yield what the machine code of a function depends on, and of all kernels that it calls."""
    if id(function) in seen:
        return
    seen.add(id(function))
    code = function.__code__
    yield repr(
        (code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_exceptiontable)
    )
    scope = function.__globals__
    modules = [scope[name] for name in code.co_names if isinstance(scope.get(name), ModuleType)]
    for name in code.co_names:
        yield from _value_parts(name, scope.get(name), seen)
        for module in modules:
            if module.__name__.startswith("ingot."):
                yield from _value_parts(name, getattr(module, name, None), seen)


def _value_parts(name: str, value: Any, seen: set[int]) -> Iterator[str]:  # noqa: ANN401
    import numpy as np

    if hasattr(value, "py_func"):
        yield from _source_parts(value.py_func, seen)
    elif hasattr(value, "_fields"):
        yield f"{name} {value._fields}"
    elif isinstance(value, np.ndarray | np.generic):
        yield f"{name} {value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, bool | int | float | str | bytes | tuple):
        yield f"{name} {value!r}"


def _kernel_stub(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of an install without numba: there to be imported, not to be called."""

    def missing(*_: object) -> NoReturn:
        problem = "this needs numba, which is not installed"
        raise ConversionError("", problem, "pip install 'ingot[recsys]'")

    missing.__doc__ = function.__doc__
    return missing


def _dispatcher(function: FunctionType, *, allocates: bool, inner: bool = False) -> Any:  # noqa: ANN401
    """Return what compiles a function at its first call with each combination of types."""
    from numba import njit
    from numba.core import config, entrypoints

    if config._config_fname:  # of the current folder: it may name a cache of pickles
        config._config_fname = ""
        config.reload_config()  # type: ignore[no-untyped-call]
    if _ANNOUNCER.of_command:
        entrypoints._already_initialized = True
    options: Any = {"_nrt": allocates, "no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
    dispatcher: Any = njit(nogil=True, **options)(function)
    dispatcher.compile = partial(_compile_for_types, dispatcher.compile)
    return dispatcher


def _compile_for_types(compile_: Callable[[object], object], kinds: tuple[Any, ...]) -> object:
    """Compile for argument types, once for all constants, without collecting garbage meanwhile.

    Collecting garbage would take a seventh of the time, compiling for each constant a fifth.
    """
    from numba.core.types import unliteral

    collects = gc.isenabled()
    gc.disable()
    try:
        return compile_(tuple(map(unliteral, kinds)))
    finally:
        if collects:
            gc.enable()


def _compile_kernel(allocates: bool, function: FunctionType) -> Any:  # noqa: ANN401
    dispatcher = _dispatcher(function, allocates=allocates)
    dispatcher._cache = _KernelCache(function, allocates)
    _ANNOUNCER.caches.append(dispatcher._cache)
    # Going through all that numba made takes the end of a process 0.2 s.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    return dispatcher


def _compile_inner(allocates: bool, function: FunctionType) -> Any:  # noqa: ANN401
    def refuse(*_: object) -> NoReturn:
        raise TypeError(f"{function.__name__} can be called by kernels only")

    dispatcher = _dispatcher(function, allocates=allocates, inner=True)
    # There is no code with which Python could call it.
    dispatcher._insert, dispatcher._compile_for_args = lambda *_: None, refuse
    return dispatcher


def _decorator(
    compiler: Callable[[bool, Any], Any], *, allocates: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    return partial(compiler, allocates) if find_spec("numba") else _kernel_stub


kernel: Final = _decorator(_compile_kernel)
"""Compiles a function to machine code that runs without the interpreter's lock.

It makes no arrays: numba then counts nobody who holds one, which took most of the time of kernels
that are called often."""
allocating_kernel: Final = _decorator(_compile_kernel, allocates=True)
"""The same for a function that makes arrays, or sorts them."""
inner_kernel: Final = _decorator(_compile_inner)
"""The same for a function that only kernels call: a third cheaper to compile, and not cached."""
