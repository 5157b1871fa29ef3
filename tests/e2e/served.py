"""A real `egopipe up` for tests: code server, webserver and daemon as a person starts them, and the commands against it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from egodata.schema.layout import StorePaths, open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.instance import open_instance
from pipelines.state import AssetState, asset_states

TINY = {"operators": 2, "size": (64, 64), "fps": 10, "seed": 1}
PROGRAM = [sys.executable, "-c", "from pipelines.cli import main; main()"]
WAIT_S = 120


def environment(env: dict[str, str] | None) -> dict[str, str]:
    """Return the environment of a program under test: with these sources first, whichever are installed."""
    sources = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "DAGSTER_DISABLE_TELEMETRY": "1", "PYTHONPATH": sources, **(env or {})}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def egopipe(*words: str, env: dict[str, str] | None = None, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    command = [*PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(env), timeout=timeout, check=False)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def up(root: Path, *words: str, env: dict[str, str] | None = None) -> Iterator[str]:
    """Serve a store until the block ends; the stop has to be clean."""
    port = free_port()
    given = environment(env)
    log = (root.parent / f"up-{port}.log").open("wb")
    server = subprocess.Popen([*PROGRAM, "up", "--store", str(root), "--port", str(port), *words], env=given, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(f"{address}/server_info") or server.poll() is not None, "the webserver")
        assert server.poll() is None, Path(log.name).read_text()
        yield address
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=90) == 0, Path(log.name).read_text()
        log.close()


def wait_until(done: Any, what: str, *, timeout_s: float = WAIT_S) -> None:
    """Ask again until something is so."""
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, f"{what}: not so after {timeout_s} s"
        time.sleep(1)


def status(root: Path) -> dict[str, Any]:
    """Return what `egopipe status --json` prints."""
    done = egopipe("status", "--store", str(root), "--json")
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def state(root: Path, asset: str) -> AssetState:
    """Return what `egopipe status` knows of one asset, without the cost of a process: for asking again and again."""
    paths = open_root(root)
    with open_instance(paths) as instance:
        return next(found for found in asset_states(instance, paths) if found.asset == asset)


def deliver(root: Path, *, episodes: int, fault: str | None = None, name: str = "monday") -> tuple[StorePaths, tuple[str, ...]]:
    """Write a tiny delivery into a store and register it; called again without fault it is the vendor's correction."""
    paths = open_root(root, create=True)
    raw = paths.raw / "mecka" / name
    summary = write_delivery(raw, WorldOptions(episodes=episodes, fault=fault, **TINY))
    done = egopipe("watch", str(raw), "--vendor", "mecka", "--store", str(root))
    assert done.returncode == 0, done.stderr
    return paths, tuple(sorted(summary.episodes))
