# Written from _async_stream.py by `npm run build:python`. Change that file, not this one.
"""A stream of events that comes back."""

from __future__ import annotations

from types import TracebackType
from typing import Callable, Generator, Generic, Optional, Type, TypeVar, cast

from ._blocking_io import Closing, Connection, Transport, HeaderSource, own_headers
from ._errors import ClientError, failure_of
from ._requests import Settings
from ._stream_state import StreamState, StreamStatus

E = TypeVar("E")


class EventStream(Generic[E]):
    """The events of a stream, across its connections. An iterator, and a context manager whose end closes it.

    - A connection that breaks, is silent for 45 s, or is ended by the server is opened again after the position of the last
      event, with delays that grow to 30 s and are spread at random. No event is given twice.
    - It ends when the server says that nothing follows (``bye`` with ``ended``, or 204), when it is closed, and with a
      ``ClientError`` if the server refuses it for good.
    - ``bye`` and ``reset`` are events too: after a ``reset`` the reader has missed events, and reads the state again.
    """

    def __init__(
        self,
        transport: Transport,
        settings: Settings,
        headers: Optional[HeaderSource],
        url_at: Callable[[Optional[str]], str],
        position: Optional[str],
        on_status: Optional[Callable[[StreamStatus], object]],
        on_position: Optional[Callable[[str], object]],
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._headers = headers
        self._url_at = url_at
        self._on_status = on_status
        self._state = StreamState(position, callable(headers), settings.random, on_position)
        self._closing = Closing()
        self._connection: Optional[Connection] = None
        self._events = self._follow()

    @property
    def position(self) -> Optional[str]:
        """The reader's place, after the last event it was given: a stream that is opened with it goes on there, also in
        another process. ``None`` before the first one that has a position."""
        return self._state.position

    def close(self) -> None:
        """End the stream, also while its loop waits for the next event."""
        self._closing.set()
        if self._connection is not None:
            self._connection.cut()
        try:
            self._events.close()
        except (RuntimeError, ValueError):
            pass  # The loop waits, and ends by itself.

    def __iter__(self) -> EventStream[E]:
        return self

    def __next__(self) -> E:
        return self._events.__next__()

    def __enter__(self) -> EventStream[E]:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _follow(self) -> Generator[E, None, None]:
        state = self._state
        while not self._closing.is_set:
            self._tell(StreamStatus("connecting"))
            state.begin()
            connection = self._connection = Connection()
            try:
                self._open(connection)
                if connection.status == 204:
                    return
                self._tell(StreamStatus("open"))
                while not state.is_ended:
                    content = connection.read()
                    if not content or self._closing.is_set:
                        break
                    for event in state.events(content):
                        yield cast(E, event)
                        if self._closing.is_set:
                            return
            except ClientError as failure:
                if self._closing.is_set:
                    return
                state.fail(failure)
            finally:
                connection.close()
            if state.is_over or self._closing.is_set:
                return
            status = state.wait()
            self._tell(status)
            self._closing.wait(status.wait or 0.0)

    def _open(self, connection: Connection) -> None:
        """:raises ClientError: if the stream cannot be opened"""
        url = self._url_at(self._state.position)
        headers = own_headers(self._headers)
        self._transport.connect(connection, url, headers, self._settings.timeout_s, self._settings.origin)
        if connection.status == 204:
            return
        if connection.status != 200:
            content = connection.read_problem()
            raise failure_of(connection.status, connection.header("retry-after"), content)
        self._state.check_type(connection.status, connection.header("content-type") or "")

    def _tell(self, status: StreamStatus) -> None:
        if self._on_status is not None:
            self._on_status(status)
