"""What the tests talk to: a real node that vitest starts, and servers of their own."""

from __future__ import annotations

import itertools
import os
import urllib.request
from typing import Callable, Iterator

import pytest

from interlock_client import Client

from raw_server import RawServer


class Stage:
    """The node, and what may happen to it."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.url = os.environ["INTERLOCK_URL"]
        #: The node behind a proxy that breaks connections.
        self.cutting_url = os.environ["INTERLOCK_CUTTING_URL"]
        #: The node behind a proxy that loses answers.
        self.losing_url = os.environ["INTERLOCK_LOSING_URL"]

    def do(self, what: str) -> None:
        """``kill``: with SIGKILL, and start it again. ``cut``, ``refuse``, ``admit``: connections. ``lose``: the next answer."""
        with urllib.request.urlopen(f"{self.base_url}/{what}", data=b"", timeout=60) as answer:
            assert answer.status == 200


@pytest.fixture(scope="session")
def stage() -> Stage:
    return Stage(os.environ["INTERLOCK_STAGE"])


@pytest.fixture()
def client(stage: Stage) -> Iterator[Client]:
    with Client(stage.url) as client:
        yield client


_users = itertools.count(1)


@pytest.fixture()
def user() -> str:
    """A user with a floor that no other test uses."""
    return f"user {next(_users)}"


@pytest.fixture()
def serve() -> Iterator[Callable[..., RawServer]]:
    """Starts servers that answer as the test says."""
    servers = []

    def start(*answers: bytes) -> RawServer:
        server = RawServer(*answers)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()
