"""Asking a server that is not ready: wait for the assets, or say why there are none."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from egodata.errors import ConflictError
from pipelines import remote

Serve = Callable[[list[Any]], str]
NONE_YET: list[dict[str, Any]] = []
LOADING = [{"name": remote.LOCATION, "loadStatus": "LOADING", "locationOrLoadError": None}]
LOADED = [{"name": remote.LOCATION, "loadStatus": "LOADED", "locationOrLoadError": {"__typename": "RepositoryLocation"}}]
BROKEN = [
    {
        "name": remote.LOCATION,
        "loadStatus": "LOADED",
        "locationOrLoadError": {"__typename": "PythonError", "message": "No module named x\n"},
    }
]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve code location entries over HTTP, one answer after the other, the last one for ever."""
    servers: list[HTTPServer] = []

    def start(answers: list[Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                entries = answers.pop(0) if len(answers) > 1 else answers[0]
                body = json.dumps({"data": {"workspaceOrError": {"locationEntries": entries}}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_assets_are_waited_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "POLL_S", 0.01)
    answers: list[Any] = [NONE_YET, LOADING, LOADED]
    remote.wait_until_loaded(serve(answers))
    assert answers == [LOADED]


def test_assets_that_do_not_load_are_said_to(serve: Serve) -> None:
    with pytest.raises(ConflictError, match="the assets could not be loaded: No module named x"):
        remote.wait_until_loaded(serve([BROKEN]))


def test_assets_that_never_load_end_the_wait(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "POLL_S", 0.01)
    monkeypatch.setattr(remote, "TIMEOUT_S", 0.2)
    with pytest.raises(ConflictError, match=r"not loaded after 0\.2 s"):
        remote.wait_until_loaded(serve([LOADING]))
