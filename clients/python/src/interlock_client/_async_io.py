"""What the asynchronous client does with the network, with time and in the background."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import time
import weakref
from types import TracebackType
from typing import Any, Awaitable, Callable, Mapping, Optional, Protocol, Tuple, Type, Union, cast

import httpx

from ._errors import ClientError, unexpected_answer, unreachable
from ._lease_pace import LeasePace
from ._log import log
from ._network import FAILURES, MAX_PROBLEM, Sockets, pool_options, stream_headers
from ._requests import Answer, Attempt, Headers
from ._stream_state import SILENCE_S
from .types import MessageAnswer, Session

HeaderSource = Union[Headers, Callable[[], Union[Headers, Awaitable[Headers]]]]


async def own_headers(source: Optional[HeaderSource]) -> Headers:
    """The headers of one request: those of a function are made anew for each."""
    if not callable(source):
        return source or {}
    given = source()
    return cast(Headers, await given if inspect.isawaitable(given) else given)


class AsyncClosing:
    """A wait that ends early when something is closed."""

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: "Optional[asyncio.Future[None]]" = None

    async def wait(self, seconds: float) -> None:
        if self.is_set:
            return
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._waiting = waiting
        timer = loop.call_later(seconds, _settle, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting = None

    def set(self) -> None:
        self.is_set = True
        if self._waiting is not None:
            _settle(self._waiting)


def _settle(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class AsyncTransport:
    """The connections of a client. Each event loop has its own, and so has a forked process."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._pools: "weakref.WeakKeyDictionary[Any, httpx.AsyncClient]" = weakref.WeakKeyDictionary()
        self._process = os.getpid()
        self._is_closed = False

    async def exchange(self, attempt: Attempt, origin: str) -> Answer:
        """:raises ClientError: ``unreachable``; ``unexpected_answer``, if the answer is too long"""
        deadline = time.monotonic() + attempt.timeout_s
        http = self._pool()
        try:
            async with http.stream(
                attempt.method,
                attempt.url,
                headers=attempt.headers,
                content=attempt.content,
                timeout=attempt.timeout_s,
            ) as response:
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > attempt.max_bytes:
                        raise unexpected_answer(response.status_code)
                    if time.monotonic() > deadline:
                        raise unreachable(origin)
                return Answer(response.status_code, bytes(content), response.headers.get("retry-after"))
        except FAILURES as error:
            raise unreachable(origin) from error

    async def connect(
        self, connection: AsyncConnection, url: str, headers: Headers, timeout_s: float, origin: str
    ) -> None:
        """Open the connection of a stream: its answer has begun.

        :raises ClientError: ``unreachable``
        """
        http = self._pool()
        request = http.build_request(
            "GET",
            url,
            headers=stream_headers(headers),
            timeout=httpx.Timeout(SILENCE_S, connect=timeout_s),
            extensions={"trace": connection.trace},
        )
        try:
            connection.response = await http.send(request, stream=True)
        except FAILURES as error:
            raise unreachable(origin) from error

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        self._is_closed = True
        http = self._pools.pop(asyncio.get_running_loop(), None) if self._process == os.getpid() else None
        if http is not None:
            await http.aclose()

    def _pool(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise RuntimeError("The client is closed.")
        if self._process != os.getpid():
            # The connections are the parent's: two processes would read each other's answers.
            self._process = os.getpid()
            self._pools = weakref.WeakKeyDictionary()
        loop = asyncio.get_running_loop()
        http = self._pools.get(loop)
        if http is None:
            http = self._pools[loop] = httpx.AsyncClient(**pool_options(self._options))
        return http


_ENDS: Tuple[Type[BaseException], ...] = (StopAsyncIteration, *FAILURES)


class AsyncConnection:
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

    async def trace(self, name: str, info: Mapping[str, Any]) -> None:
        self._sockets.note(name, info)

    async def read(self) -> bytes:
        """The next bytes; none at the end, also of a connection that broke or fell silent."""
        if self.response is None:
            return b""
        if self._pieces is None:
            self._pieces = self.response.aiter_bytes()
        try:
            piece: bytes = await self._pieces.__anext__()
            return piece
        except _ENDS:
            return b""

    async def read_problem(self) -> bytes:
        """The answer of a refused stream, or its beginning."""
        content = b""
        while len(content) < MAX_PROBLEM:
            piece = await self.read()
            if not piece:
                break
            content += piece
        return content

    def cut(self) -> None:
        """End the connection, also while another task reads it."""
        self._sockets.cut()

    async def aclose(self) -> None:
        # A forked process may still have the socket, and the server must learn of the end.
        self.cut()
        if self.response is not None:
            try:
                await self.response.aclose()
            except FAILURES:
                pass  # It was broken before.


class _Heartbeats(Protocol):
    async def heartbeat(self, session_id: str, *, within: Optional[float] = None) -> MessageAnswer:
        ...


class AsyncLease:
    """Renews a session's lease in a task of its own, until it is stopped or the session is archived.

    A context manager, whose end stops it. See :meth:`AsyncClient.keep_lease`.
    """

    def __init__(
        self, client: _Heartbeats, session: Session, on_lapsed: Optional[Callable[[str], object]]
    ) -> None:
        self._client = client
        self._session_id = session["id"]
        self._on_lapsed = on_lapsed
        self._pace = LeasePace(random.random)
        self._task: "Optional[asyncio.Task[None]]" = None
        #: Between heartbeats. A task is cancelled instead of waiting to its end.
        self._pause = AsyncClosing()
        self.note(session)

    def note(self, session: Optional[Session]) -> None:
        """Take the session as it is now, from any answer: another length of its lease changes the interval."""
        if not self._pace.note(session):
            return
        self._end()
        if self._pace.is_running:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def stop(self) -> None:
        """Send no more heartbeats. The session then loses its place when its lease runs out."""
        self._pace.stop()
        self._end()

    async def __aenter__(self) -> AsyncLease:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def _end(self) -> None:
        task, self._task = self._task, None
        # What `on_lapsed` calls may stop the lease: its own task then ends by itself.
        if task is not None and task is not _current_task():
            task.cancel()

    async def _beat(self) -> None:
        own = asyncio.current_task()
        while self._task is own:
            begun = time.monotonic()
            interval_s = self._pace.interval_s()
            try:
                answer = await self._client.heartbeat(self._session_id, within=self._pace.patience_s())
                notice = self._pace.answered(answer) if self._task is own else None
            except ClientError as error:
                # The next heartbeat replaces a lost one.
                if self._pace.is_over(error):
                    return
                notice = None
            except Exception:
                log.exception("A heartbeat of session %s was not sent", self._session_id)
                notice = None
            if notice is not None and self._on_lapsed is not None:
                try:
                    self._on_lapsed(notice)
                except Exception:
                    log.exception("on_lapsed failed for session %s", self._session_id)
            await self._pause.wait(max(0.0, interval_s - (time.monotonic() - begun)))


def _current_task() -> "Optional[asyncio.Task[Any]]":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
