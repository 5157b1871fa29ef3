"""`egopipe up`: code server, webserver and daemon on this machine only. What dies is started again; the end is clean."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from filelock import FileLock, Timeout

from egodata.errors import ConflictError
from egodata.schema.layout import StorePaths, require_writable, write_atomic
from pipelines.instance import environment, open_instance, prepare_home
from pipelines.leftovers import MARK_VARIABLE, end_leftovers, fail_orphans

HOST = "127.0.0.1"
LOCATION = "pipelines.definitions"
STOP_TIMEOUT_S, START_TIMEOUT_S = 20, 120
LOGS = "up"
"""Folder of the processes' own output in the Dagster home; that of the time before is kept beside it."""
LOOK_EVERY_S = 0.5
QUICK_S, QUICK_DEATHS = 30.0, 5
"""A process that dies this often within this time of its start is not started again."""


@dataclass(slots=True)
class _Service:
    """One process that is kept alive.

    Attributes:
        name: For messages.
        command: What to run.
        ready: A path that is there once it listens.
        quick: How often in a row it died soon after its start.
    """

    name: str
    command: list[str]
    ready: Path | None = None
    process: "subprocess.Popen[bytes] | None" = None
    started_s: float = 0.0
    quick: int = 0


@dataclass(slots=True)
class _Services:
    paths: StorePaths
    services: list[_Service]
    say: Callable[[str], None]
    extra: Mapping[str, str]
    asked: list[int] = field(default_factory=list)

    def start(self, service: _Service) -> None:
        marked = {**environment(self.paths), MARK_VARIABLE: str(self.paths.dagster), **self.extra}
        # A shell that starts this in the background sets SIGINT to be ignored, which Dagster would inherit and never stop; a handler of
        # our own is not inherited, so the child begins with the default.
        with (self.paths.dagster / LOGS / f"{service.name.replace(' ', '-')}.log").open("ab") as log:
            service.process = subprocess.Popen(
                service.command, env=marked, cwd=self.paths.root, start_new_session=True, stdout=log, stderr=subprocess.STDOUT
            )
        service.started_s = time.monotonic()
        if service.ready is not None:
            self._wait(service, service.ready)

    def _wait(self, service: _Service, ready: Path) -> None:
        """Wait until a service listens: those that come after it ask it at once."""
        while not self.asked and not ready.exists() and time.monotonic() - service.started_s < START_TIMEOUT_S:
            if service.process is not None and service.process.poll() is not None:
                return
            time.sleep(0.1)

    def keep_alive(self) -> int:
        """Watch until somebody asks to stop; return the exit status."""
        for service in self.services:
            self.start(service)
        while not self.asked:
            time.sleep(LOOK_EVERY_S)
            for service in self.services:
                status = service.process.poll() if service.process else None
                if status is None or self.asked:
                    continue
                service.quick = service.quick + 1 if time.monotonic() - service.started_s < QUICK_S else 1
                if service.quick > QUICK_DEATHS:
                    self.say(f"{service.name} ended {QUICK_DEATHS} times soon after its start, last with status {status}; stopping")
                    return 3
                self.say(f"{service.name} ended with status {status}; started again")
                if service.ready is not None:
                    service.ready.unlink(missing_ok=True)
                self.start(service)
        return 0

    def stop(self) -> None:
        """End every process in turn, runs last, and whatever they left behind in their groups."""
        for service in reversed(self.services):
            if service.process is not None and service.process.poll() is None:
                service.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for service in reversed(self.services):
            if service.process is None:
                continue
            try:
                service.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            with suppress(ProcessLookupError):
                os.killpg(service.process.pid, signal.SIGKILL)
            service.process.wait()


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


def served_at(paths: StorePaths) -> str | None:
    """Return the address of the `egopipe up` that runs on a store now, or None."""
    if not paths.dagster.is_dir():
        return None
    lock = FileLock(paths.dagster / ".up.lock")
    try:
        with lock.acquire(timeout=0):
            return None
    except Timeout:
        try:
            found: dict[str, Any] = json.loads((paths.dagster / "up.json").read_text())
            return str(found["address"])
        except (OSError, ValueError, KeyError):
            return None  # it is just starting


def serve(
    paths: StorePaths, *, port: int, ready: Callable[[str], None], say: Callable[[str], None], extra: Mapping[str, str] | None = None
) -> int:
    """Run code server, webserver and daemon until Ctrl-C or SIGTERM; start again what dies.

    Args:
        paths: Store whose Dagster home is used.
        port: Port on 127.0.0.1.
        ready: Called with the address once the processes are started.
        say: Told when a process died.
        extra: Environment of the processes besides.

    Returns:
        0 after a clean stop, 3 if a process does not stay alive.

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
        with _socket_folder() as folder:
            return _run(_Services(paths, _services(folder, port), say, extra or {}), port, ready)
    finally:
        lock.release()


@contextmanager
def _socket_folder() -> Iterator[Path]:
    """Give a private folder with a short path: sockets may not be called by long ones."""
    folder = Path(tempfile.mkdtemp(prefix="egopipe-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _begin_logs(folder: Path) -> None:
    before = folder.with_name(f"{LOGS}.before")
    shutil.rmtree(before, ignore_errors=True)
    if folder.exists():
        folder.rename(before)
    folder.mkdir(parents=True)


def _services(folder: Path, port: int) -> list[_Service]:
    code, workspace = folder / "code.sock", folder / "workspace.yaml"
    workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": {"socket": str(code), "location_name": LOCATION}}]}))
    python = [sys.executable, "-m"]
    where = ["--workspace", str(workspace)]
    server = ["dagster", "api", "grpc", "--socket", str(code), "-m", LOCATION, "--location-name", LOCATION, "--lazy-load-user-code"]
    return [
        _Service("code server", [*python, *server, "--log-level", "warning"], ready=code),
        _Service("webserver", [*python, "dagster_webserver", "-h", HOST, "-p", str(port), *where, "--dagster-log-level", "warning"]),
        _Service("daemon", [*python, "dagster._daemon", "run", *where, "--log-level", "warning"]),
    ]


def _run(services: _Services, port: int, ready: Callable[[str], None]) -> int:
    def stop(number: int, _frame: FrameType | None) -> None:
        services.asked.append(number)

    paths, address = services.paths, f"http://{HOST}:{port}"
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended = end_leftovers(str(paths.dagster))
        with open_instance(paths) as instance:
            failed = fail_orphans(instance)
        if ended or failed:
            services.say(f"an earlier `egopipe up` was killed: {ended} processes ended, {failed} runs of it are started again")
        _begin_logs(paths.dagster / LOGS)
        write_atomic(paths.dagster / "up.json", json.dumps({"address": address, "pid": os.getpid()}).encode())
        ready(address)
        return services.keep_alive()
    finally:
        services.stop()
        end_leftovers(str(paths.dagster))
        (paths.dagster / "up.json").unlink(missing_ok=True)
        with open_instance(paths) as instance:
            fail_orphans(instance)
        for number, handler in previous.items():
            signal.signal(number, handler)
