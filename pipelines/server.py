"""`egopipe up`: webserver and daemon on this machine only, with a clean stop."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

from filelock import FileLock, Timeout

from egodata.errors import ConflictError
from egodata.schema.layout import StorePaths, require_writable
from pipelines.instance import prepare_home
from pipelines.resources import STORE_VARIABLE

HOST = "127.0.0.1"
STOP_TIMEOUT_S = 20


def environment(paths: StorePaths) -> dict[str, str]:
    """Return the environment in which Dagster finds this store."""
    return {**os.environ, "DAGSTER_HOME": str(paths.dagster), STORE_VARIABLE: str(paths.root), "DAGSTER_DISABLE_TELEMETRY": "1"}


def require_free_port(port: int) -> None:
    """Refuse a port that something listens on.

    Raises:
        ConflictError: It is in use.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConflictError(f"port {port} on {HOST} is in use ({error.strerror}). Choose another with --port.") from error


def serve(paths: StorePaths, *, port: int, ready: Callable[[str], None]) -> int:
    """Run webserver and daemon until Ctrl-C or SIGTERM.

    Args:
        paths: Store whose Dagster home is used.
        port: Port on 127.0.0.1.
        ready: Called with the address once the processes are started.

    Returns:
        0 after a clean stop, else the exit status of Dagster.

    Raises:
        ConflictError: The port is in use, or another `egopipe up` runs on this home.
        InputError: The store cannot be written to, so Dagster could keep nothing.
    """
    require_writable(paths)
    prepare_home(paths)
    lock = FileLock(paths.dagster / ".up.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConflictError(
            f"store {paths.root}: `egopipe up` already runs on its Dagster home. Use that one, or stop it first."
        ) from error
    try:
        require_free_port(port)
        return _run(paths, port, ready)
    finally:
        lock.release()


def _run(paths: StorePaths, port: int, ready: Callable[[str], None]) -> int:
    command = [sys.executable, "-m", "dagster", "dev", "-h", HOST, "-p", str(port), "-m", "pipelines.definitions"]
    asked: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) == 1 and child is not None:
            child.send_signal(signal.SIGINT)

    # A shell that starts this in the background sets SIGINT to be ignored, which Dagster would inherit and never stop.
    # A handler set before the child starts is not inherited: the child begins with the default.
    child: subprocess.Popen[bytes] | None = None
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        child = subprocess.Popen(command, env=environment(paths), cwd=paths.root, start_new_session=True)
        ready(f"http://{HOST}:{port}")
        status = _wait(child, lambda: bool(asked))
        return 0 if asked else status
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _wait(child: "subprocess.Popen[bytes]", stopping: Callable[[], bool]) -> int:
    while True:
        try:
            status = child.wait(timeout=1 if not stopping() else STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            if stopping():
                os.killpg(child.pid, signal.SIGKILL)
                return child.wait()
            continue
        try:
            os.killpg(child.pid, signal.SIGTERM)  # whatever the parent left behind in its group
        except ProcessLookupError:
            pass
        return status
