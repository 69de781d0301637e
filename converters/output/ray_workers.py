"""Spread work over a Ray cluster: tasks and results travel, data never does.

A task whose process or node dies is done again elsewhere. What a task writes has to be on storage
that all nodes share.
"""

import logging
import os
import socket
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from ingot.converters.errors import ConversionError
from ingot.converters.imports import prepare_process
from ingot.converters.output.worker_pool import Spreading, WorkerDiedError

_CONNECT_SECONDS: Final = 10.0
_RETRIES: Final = 10  # of a task whose process or node died


class RayWorkers(Spreading):
    """A runner on a cluster, which is joined, or made of this machine where none is named."""

    def __init__(self, address: str | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            hint = 'pip install "ingot[ray]"'
            raise ConversionError("", "`runner` ray needs the package ray", hint) from error
        # Its own report of every process is not what a user asked for.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = ray
        self._joined = ray.is_initialized()
        if not self._joined:
            try:
                _check_reachable(address or os.environ.get("RAY_ADDRESS", ""))
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (OSError, RuntimeError, ValueError) as error:
                location = address or os.environ.get("RAY_ADDRESS", "this machine")
                raise ConversionError(location, f"no Ray cluster: {error}", "is it up?") from error
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.jobs = max(1, int(resources.get("CPU", 1)))
        self._call = ray.remote(
            num_cpus=1, max_retries=_RETRIES, retry_exceptions=False, scheduling_strategy="SPREAD"
        )(_do_task)

    def __exit__(self, *_: object) -> None:
        if not self._joined:
            self._ray.shutdown()

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":  # noqa: ANN401
        """Have `work(*arguments)` done on a node."""
        result: Future[Any] = Future()
        future = self._call.remote(str(Path.cwd()), work, arguments).future()
        future.add_done_callback(lambda one: self._settle(one, result))
        return result

    def _settle(self, future: "Future[Any]", result: "Future[Any]") -> None:
        error: BaseException | None = future.exception()
        if error is None:
            done, error, details = future.result()
            if error is None:
                result.set_result(done)
                return
            error.add_note(details)
        elif isinstance(error, self._ray.exceptions.RayError):
            error = WorkerDiedError(f"ended {_RETRIES + 1} times: {str(error).splitlines()[0]}")
        result.set_exception(error)


def _check_reachable(address: str) -> None:
    """Raise OSError where nothing answers: Ray itself would try for more than a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


def _do_task(
    folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Exception | None, str]:
    prepare_process()
    try:
        if Path(folder).is_dir():  # paths may be relative to the folder of the command
            os.chdir(folder)
        return work(*arguments), None, ""
    except Exception as error:  # noqa: BLE001 - as it is, not as Ray wraps it
        return None, error, traceback.format_exc()
