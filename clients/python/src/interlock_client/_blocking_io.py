"""What the blocking client does with the network, with time and in the background."""

from __future__ import annotations

import os
import random
import threading
import time
from types import TracebackType
from typing import Any, Callable, Dict, Literal, Mapping, Optional, Protocol, Tuple, Type, Union

import httpx

from ._errors import ClientError, unexpected_answer, unreachable
from ._lease_pace import LeasePace
from ._log import log
from ._network import FAILURES, MAX_PROBLEM, Sockets, pool_options, stream_headers
from ._requests import Answer, Attempt, Headers
from ._stream_state import SILENCE_S
from .types import MessageAnswer, Session

HeaderSource = Union[Headers, Callable[[], Headers]]


def own_headers(source: Optional[HeaderSource]) -> Headers:
    """The headers of one request: those of a function are made anew for each."""
    if not callable(source):
        return source or {}
    return source()


class Closing:
    """A wait that ends early when something is closed, by any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)

    def set(self) -> None:
        self._event.set()


class Transport:
    """The connections of a client, for all its threads. A forked process has its own."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        #: Streams have connections of their own, which are ended while another thread reads them.
        self._pools: Dict[Literal["requests", "streams"], httpx.Client] = {}
        self._process = os.getpid()
        self._closing = Closing()

    def exchange(self, attempt: Attempt, origin: str) -> Answer:
        """:raises ClientError: ``unreachable``; ``unexpected_answer``, if the answer is too long"""
        deadline = time.monotonic() + attempt.timeout_s
        http = self._pool("requests")
        try:
            with http.stream(
                attempt.method,
                attempt.url,
                headers=attempt.headers,
                content=attempt.content,
                timeout=attempt.timeout_s,
            ) as response:
                content = bytearray()
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > attempt.max_bytes:
                        raise unexpected_answer(response.status_code)
                    if time.monotonic() > deadline:
                        raise unreachable(origin)
                return Answer(response.status_code, bytes(content), response.headers.get("retry-after"))
        except FAILURES as error:
            raise unreachable(origin) from error

    def connect(self, connection: Connection, url: str, headers: Headers, timeout_s: float, origin: str) -> None:
        """Open the connection of a stream: its answer has begun.

        :raises ClientError: ``unreachable``
        """
        http = self._pool("streams")
        request = http.build_request(
            "GET",
            url,
            headers=stream_headers(headers),
            timeout=httpx.Timeout(SILENCE_S, connect=timeout_s),
            extensions={"trace": connection.trace},
        )
        try:
            connection.response = http.send(request, stream=True)
        except FAILURES as error:
            raise unreachable(origin) from error

    def sleep(self, seconds: float) -> None:
        """Ends early when the client is closed."""
        self._closing.wait(seconds)

    def close(self) -> None:
        self._closing.set()
        pools, self._pools = self._pools, {}
        if self._process == os.getpid():
            for http in pools.values():
                http.close()

    def _pool(self, kind: Literal["requests", "streams"]) -> httpx.Client:
        if self._closing.is_set:
            raise RuntimeError("The client is closed.")
        if self._process != os.getpid():
            # The connections are the parent's: two processes would read each other's answers.
            self._process = os.getpid()
            self._pools = {}
        http = self._pools.get(kind)
        if http is None:
            options = pool_options(self._options)
            if kind == "streams" and "limits" not in self._options:
                options["limits"] = httpx.Limits(max_connections=None, max_keepalive_connections=0)
            # Of two threads one makes it; a lock could be held by a thread that a forked process lacks.
            http = self._pools.setdefault(kind, httpx.Client(**options))
        return http


_ENDS: Tuple[Type[BaseException], ...] = (StopIteration, *FAILURES)


class Connection:
    """One connection of a stream."""

    def __init__(self) -> None:
        self.response: Optional[httpx.Response] = None
        self._sockets = Sockets()
        self._pieces: Any = None

    @property
    def status(self) -> int:
        return 0 if self.response is None else self.response.status_code

    def header(self, name: str) -> Optional[str]:
        return None if self.response is None else self.response.headers.get(name)

    def trace(self, name: str, info: Mapping[str, Any]) -> None:
        self._sockets.note(name, info)

    def read(self) -> bytes:
        """The next bytes; none at the end, also of a connection that broke or fell silent."""
        if self.response is None:
            return b""
        if self._pieces is None:
            self._pieces = self.response.iter_bytes()
        try:
            piece: bytes = next(self._pieces)
            return piece
        except _ENDS:
            return b""

    def read_problem(self) -> bytes:
        """The answer of a refused stream, or its beginning."""
        content = b""
        while len(content) < MAX_PROBLEM:
            piece = self.read()
            if not piece:
                break
            content += piece
        return content

    def cut(self) -> None:
        """End the connection, also while another thread reads it."""
        self._sockets.cut()

    def close(self) -> None:
        # A forked process may still have the socket, and the server must learn of the end.
        self.cut()
        if self.response is not None:
            try:
                self.response.close()
            except FAILURES:
                pass  # It was broken before.


class _Heartbeats(Protocol):
    def heartbeat(self, session_id: str, *, within: Optional[float] = None) -> MessageAnswer:
        ...


class Lease:
    """Renews a session's lease in a thread of its own, until it is stopped or the session is archived.

    A context manager, whose end stops it. See :meth:`Client.keep_lease`. The thread ends with the program, and is not in a
    forked process.
    """

    def __init__(
        self, client: _Heartbeats, session: Session, on_lapsed: Optional[Callable[[str], object]]
    ) -> None:
        self._client = client
        self._session_id = session["id"]
        self._on_lapsed = on_lapsed
        self._pace = LeasePace(random.random)
        #: Ends the thread that beats.
        self._ending = Closing()
        self.note(session)

    def note(self, session: Optional[Session]) -> None:
        """Take the session as it is now, from any answer: another length of its lease changes the interval."""
        if not self._pace.note(session):
            return
        self._ending.set()
        if self._pace.is_running:
            self._ending = Closing()
            name = f"lease of {self._session_id}"
            threading.Thread(target=self._beat, args=(self._ending,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Send no more heartbeats. The session then loses its place when its lease runs out."""
        self._pace.stop()
        self._ending.set()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def _beat(self, ending: Closing) -> None:
        while not ending.is_set:
            begun = time.monotonic()
            interval_s = self._pace.interval_s()
            notice = None
            try:
                answer = self._client.heartbeat(self._session_id, within=self._pace.patience_s())
                notice = None if ending.is_set else self._pace.answered(answer)
            except ClientError as error:
                # The next heartbeat replaces a lost one.
                if self._pace.is_over(error):
                    return
            except Exception:
                log.exception("A heartbeat of session %s was not sent", self._session_id)
            if notice is not None and self._on_lapsed is not None:
                try:
                    self._on_lapsed(notice)
                except Exception:
                    log.exception("on_lapsed failed for session %s", self._session_id)
            ending.wait(max(0.0, interval_s - (time.monotonic() - begun)))
