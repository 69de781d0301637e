"""Spread work over processes; one that dies takes its own task with it, and no other.

A process is a fresh Python that gets what it has to do through a pipe. It leaves the keyboard and
SIGTERM to its parent and ends on the spot when the parent does, so no orphan goes on writing. A
runner is anything with `submit`; nothing that a job writes depends on which runner it had.
"""

import atexit
import contextlib
import fcntl
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from ingot import __path__ as package_folders
from ingot.converters.errors import ConversionError
from ingot.converters.imports import prepare_process

Task = TypeVar("Task")
Done = TypeVar("Done")
_ORPHANED: Final = 1
_START: Final = "import os; from ingot.converters.output.worker_pool import main; os._exit(main())"
_PIPE_BYTES: Final = 1 << 20  # of what a process sends, so that it is seldom waited for
_MOST_RESULTS: Final = 256  # that wait for one before them
_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1"}  # numpy's would spin for 0.1 s, and do nothing
NOTHING: Final = memoryview(b"")
_PACKAGES: Final = Path(package_folders[0]).parent


def limit_process(*, memory: int | None = None, seconds: int | None = None) -> None:
    """Let this process have so many bytes of memory, or more processor time (Linux keeps to it)."""
    cpu_limit = seconds and int(time.process_time()) + seconds
    for kind, limit in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, cpu_limit)):
        if limit:
            _, hard = resource.getrlimit(kind)
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (limit, hard))


class WorkerDiedError(ConversionError):
    """The process of a task died.

    Further fields: end_text (the words "ended by signal 9"), cause ("signal 9", "" where unknown).
    """

    def __init__(self, end_text: str, cause: str = "") -> None:
        super().__init__("workers", "a worker process died", "check the free memory")
        self.args = (end_text, cause)
        self.end_text, self.cause = end_text, cause

    def hide(self, redact: Callable[[str], str]) -> None:
        """Redact nothing: no data is quoted."""


class Inbox:
    """What the parent sends; a thread receives it, so that the parent's end is heard at once."""

    def __init__(self, received: "Connection[None, Any]") -> None:
        self._received = received
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def _listen(self) -> None:
        try:
            while (item := self._received.recv()) is not None:
                self._items.put(item)
        except (EOFError, OSError):
            os._exit(_ORPHANED)  # without clean-up: a successor finds nobody writing
        except Exception:  # noqa: BLE001 - without the item the parent would wait for ever
            traceback.print_exc()
            os._exit(1)
        self.close()

    def close(self) -> None:
        """End the iteration after what has come."""
        self._items.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items.get, None)


class Send(Protocol):
    """Sends to the parent, from any thread."""

    def __call__(self, message: Any, data: memoryview = NOTHING) -> None:  # noqa: ANN401
        """Send one message, and bytes behind it for which it is worth to make no copies."""


Serve: TypeAlias = Callable[[Inbox, Send], int]  # what a process does; returns its exit status


def main() -> int:
    """Serve the parent until it has nothing more to do; return the exit status."""
    prepare_process()
    out: Connection[Any, None] = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # whatever a library prints goes to standard error from now on
    received: Connection[None, Any] = Connection(os.dup(0), writable=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    lock = threading.Lock()

    def send(message: object, data: memoryview = NOTHING) -> None:
        try:
            with lock:
                out.send(message)
                while data:
                    data = data[os.write(out.fileno(), data) :]
        except BrokenPipeError:
            os._exit(_ORPHANED)

    try:
        serve: Serve = received.recv()
    except (EOFError, OSError):
        return _ORPHANED
    return serve(Inbox(received), send)


class WorkerProcess:
    """A process that does `serve`; it inherits the descriptors `pass_fds`, and gets `variables`."""

    def __init__(
        self, serve: Serve, *, pass_fds: Sequence[int] = (), variables: Mapping[str, str] = {}
    ) -> None:
        # This very package, whatever lies in the folder that the parent was started in.
        search_path = os.pathsep.join([str(_PACKAGES), os.environ.get("PYTHONPATH", "")])
        own_input, output_fd = os.pipe()
        input_fd, own_output = os.pipe()
        with contextlib.suppress(AttributeError, OSError):  # not everywhere, not so many
            fcntl.fcntl(input_fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        # It hears no interrupt of the terminal and no request to end: its parent does.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START],
                stdin=own_input,
                stdout=own_output,
                pass_fds=tuple(pass_fds),
                env={
                    **_THREADS,
                    **os.environ,
                    "PYTHONPATH": search_path.rstrip(os.pathsep),
                    **variables,
                },
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            os.close(own_input)
            os.close(own_output)
        self._sent: Connection[Any, None] = Connection(output_fd, readable=False)
        self.received: Connection[None, Any] = Connection(input_fd, writable=False)
        self.send(serve)

    def send(self, message: object) -> None:
        """Send a message; a process that is gone is found out by the end of what it sends."""
        with contextlib.suppress(OSError):
            self._sent.send(message)

    def receive(self) -> Any:  # noqa: ANN401 - what it sends
        """Wait for a message. Raises WorkerDiedError."""
        try:
            return self.received.recv()
        except (EOFError, OSError):
            raise self.wait_for_death() from None

    def receive_bytes(self, size: int) -> bytearray:
        """Return the bytes that were sent behind a message."""
        data = bytearray(size)
        remaining = memoryview(data)
        while remaining and (count := os.readv(self.received.fileno(), [remaining])):
            remaining = remaining[count:]
        if remaining:
            raise self.wait_for_death()
        return data

    def wait_for_death(self) -> WorkerDiedError:
        """Wait until the process ends, and return the error that says why: a signal or a status."""
        code = self.process.wait()
        cause = f"signal {-code}" if code < 0 else f"exit status {code}"
        return WorkerDiedError(f"ended by {cause}", cause)

    def end(self, seconds: float = 0) -> None:
        """End the process, after so many seconds if it does not end by itself."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._sent.close()
        self.received.close()


# Processes that wait for the next file, by what they do.
_MOST_IDLE: Final = 8
_idle: dict[Serve, list[WorkerProcess]] = {}
_lock = threading.Lock()


def take_process(serve: Serve, variables: Mapping[str, str] = {}) -> WorkerProcess:
    """Take a process that does `serve`: one that waits, or a new one."""
    with _lock:
        waiting = _idle.get(serve, [])
        while waiting:
            process = waiting.pop()
            if process.process.poll() is None:
                return process
            process.end()
    return WorkerProcess(serve, variables=variables)


def give_back_process(serve: Serve, process: WorkerProcess) -> None:
    """Let a process wait for the next file; it has replied to all that it was asked."""
    with _lock:
        waiting = _idle.setdefault(serve, [])
        if len(waiting) < _MOST_IDLE:
            waiting.append(process)
            return
    process.end()


def _forget_idle() -> None:
    _idle.clear()
    _lock.release()


@atexit.register
def end_idle() -> None:
    """End the processes that wait."""
    for waiting in _idle.values():
        while waiting:
            waiting.pop().end()


# A child of a fork has processes of its own: these serve its parent.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_idle
)


class Runner(Protocol):
    """What a job needs to spread its work; `concurrent.futures.Executor` is one."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":  # noqa: ANN401
        """Have `work(*arguments)` done, here and now or elsewhere and later."""


def results_in_order(
    runner: Runner,
    work: Callable[[Task], Done],
    tasks: Iterable[Task],
    *,
    window: int,
    work_here: Callable[[Task], Done] | None = None,
) -> Iterator[Done]:
    """Yield the result of `work` for each task, in the order of the tasks; so is the first error.

    At most `window` tasks are under way or waiting to be taken, so memory does not grow with their
    number. With `work_here` this thread does the next task meanwhile, and never waits if it can
    work.
    """
    pending: deque[Future[Done]] = deque()
    max_pending = window if work_here is None else _MOST_RESULTS
    for task in tasks:
        if work_here and sum(not one.done() for one in pending) >= window:
            pending.append(_do_here(work_here, task))
        else:
            pending.append(runner.submit(work, task))
        while pending and (len(pending) >= max_pending or (work_here and pending[0].done())):
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _do_here(work: Callable[[Task], Done], task: Task) -> "Future[Done]":
    future: Future[Done] = Future()
    try:
        future.set_result(work(task))
    except Exception as error:  # noqa: BLE001 - raised in its turn
        future.set_exception(error)
    return future


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFailure:
    """A task without a result, and why: its process died, or its work raised an error."""

    why: str
    details: str = ""


class Spreading:
    """A runner whose `jobs` tasks are done at a time, to be left when its work is done."""

    jobs: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what is under way."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":  # noqa: ANN401
        """Have `work(*arguments)` done."""
        raise NotImplementedError

    def spread(
        self, work: Callable[[Task], Done], tasks: Iterable[Task], *, jobs: int | None = None
    ) -> Iterator[tuple[Task, Done | TaskFailure]]:
        """Yield every task with its result as it comes; at most `jobs` are under way at a time."""
        pending, done = iter(tasks), False
        try:
            first = islice(pending, jobs or self.jobs)
            busy: dict[Future[Done], Task] = {self.submit(work, task): task for task in first}
            while busy:
                future = wait(busy, return_when=FIRST_COMPLETED).done.pop()
                task = busy.pop(future)
                busy.update((self.submit(work, new), new) for new in islice(pending, 1))
                result = _task_result(future)
                yield task, result
            done = True
        finally:
            if not done:  # the caller has stopped taking results
                self.__exit__()


class Workers(Spreading):
    """A runner of processes that work at one task each; they are started as they are needed.

    `hear` is called, from any thread, with what tasks `tell`; see `WorkerProcess` for `pass_fds`.
    """

    def __init__(
        self,
        jobs: int,
        *,
        hear: Callable[[Any], None] = lambda _: None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.jobs = jobs
        self._hear = hear
        self._start = partial(WorkerProcess, _serve_tasks, pass_fds=pass_fds)
        self._threads = ThreadPoolExecutor(jobs, "worker")
        self._lock = threading.Lock()
        self._processes: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []
        self._ended = False

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended = True
            for process in self._processes:
                process.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.end()
        self._processes.clear()

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":  # noqa: ANN401
        """Have `work(*arguments)` done in a process."""
        return self._threads.submit(self._do, work, arguments)

    def _do(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
        with self._lock:
            if self._ended:
                raise WorkerDiedError("ended before its work")
            process = self._idle.pop() if self._idle else self._start()
            self._processes.add(process)
        process.send((work, arguments))
        try:
            while isinstance(reply := process.receive(), _Told):
                self._hear(reply.message)
            result, error, details = reply
        except WorkerDiedError:
            with self._lock:
                if not self._ended:
                    self._processes.remove(process)
                    process.end()
            raise
        self._idle.append(process)
        if error is not None:
            error.add_note(details)
            raise error
        return result


def _task_result(future: "Future[Done]") -> Done | TaskFailure:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, WorkerDiedError):
        return TaskFailure(why=f"the worker process {error.end_text}: is there enough memory?")
    reason = f"internal error: {type(error).__name__}: {error}"
    # A process notes its traceback; what cannot be sent or received has none.
    return TaskFailure(why=reason, details="\n".join(getattr(error, "__notes__", ())))


@dataclass(frozen=True, slots=True)
class _Told:
    message: object


_sends: list[Send] = []  # to the runner of this process


def tell(message: object) -> bool:
    """Tell whoever started `Workers` how a task goes; False in other processes: nobody hears it."""
    for send in _sends:
        send(_Told(message))
    return bool(_sends)


def _serve_tasks(inbox: Inbox, send: Send) -> int:
    _sends.append(send)
    reply: tuple[Any, Exception | None, str]
    for work, arguments in inbox:
        try:
            reply = work(*arguments), None, ""
        except Exception as error:  # noqa: BLE001 - a mistake at one task must not end the others
            reply = None, error, traceback.format_exc()
        try:
            send(reply)
        except Exception as error:  # noqa: BLE001 - what cannot be sent is a mistake, too
            send((None, RuntimeError(f"cannot send the result: {error}"), traceback.format_exc()))
    return 0
