"""Spread work over processes: a runner is anything with `submit`; results come back in order."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from ingot.converters.errors import ConversionError

Task = TypeVar("Task")
Done = TypeVar("Done")


class Runner(Protocol):
    """What a job needs to spread its work; `concurrent.futures.Executor` is one."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":  # noqa: ANN401
        """Have `work(*arguments)` done, here and now or elsewhere and later."""


def results_in_order(
    runner: Runner, work: Callable[[Task], Done], tasks: Iterable[Task], *, window: int
) -> Iterator[Done]:
    """The result of `work` for each task, in the order of the tasks.

    At most `window` tasks are under way or waiting to be taken, so memory does not grow with their
    number. The first error in the order of the tasks is raised, whichever happened first.
    """
    waiting: deque[Future[Done]] = deque()
    for task in tasks:
        waiting.append(runner.submit(work, task))
        if len(waiting) >= window:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@contextmanager
def process_pool(workers: int) -> Iterator[Runner]:
    """A pool of fresh processes that end with the block, and at once if the block fails.

    They also end when this process is killed: each waits for the end of a pipe that only this
    process can write to, so no orphan goes on writing.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=start_worker, initargs=(reader,)
    )
    try:
        yield pool
    except BaseException as error:
        writer.close()
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            hint = "check the free memory; a script that calls ingot needs "
            hint += "`if __name__ == '__main__':` around its work"
            raise ConversionError("workers", "a worker process died", hint) from error
        raise
    else:
        pool.shutdown()
        writer.close()
    finally:
        reader.close()


def start_worker(reader: Connection) -> None:
    """Leave the keyboard to the parent, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(reader,), daemon=True).start()


def _end_with_parent(reader: Connection) -> None:
    try:
        reader.recv_bytes()
    except (EOFError, OSError):
        # No clean-up on purpose: whoever takes the work up discards what is half written.
        os._exit(1)
