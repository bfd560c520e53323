"""What both clients know of httpx."""

from __future__ import annotations

import os
import socket
import ssl
from functools import lru_cache
from typing import Any, Dict, Mapping, Optional, Tuple, Type

import httpx

from ._requests import Headers

#: How a connection fails. Other errors are faults of the program, such as an address of another scheme.
FAILURES: Tuple[Type[BaseException], ...] = (
    httpx.TimeoutException,
    httpx.NetworkError,
    httpx.ProtocolError,
    httpx.ProxyError,
    httpx.DecodingError,
    httpx.StreamError,
    OSError,
)
#: Bytes that are read of a refused stream's answer.
MAX_PROBLEM = 65_536


def pool_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The options of httpx: what is not given is as here.

    Requests never wait for one another: a stream holds its connection for hours.
    """
    own: Dict[str, Any] = {"limits": httpx.Limits(max_connections=None, max_keepalive_connections=20)}
    if _OF_TLS.isdisjoint(options):
        own["verify"] = _certificates()
    return {**own, **options}


#: Options that decide about certificates.
_OF_TLS = frozenset(["verify", "cert", "trust_env", "http2", "transport", "mounts"])


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Those that httpx trusts. To read them takes long, so all clients of a process share them."""
    return httpx.create_ssl_context()


def stream_headers(headers: Headers) -> Dict[str, str]:
    own = {name.lower(): value for name, value in headers.items()}
    return {**own, "accept": "text/event-stream", "accept-encoding": "identity", "cache-control": "no-store"}


class Sockets:
    """The socket of a stream's connection, so that another thread or task can end it while it is read."""

    def __init__(self) -> None:
        self._stream: Any = None
        self._process = os.getpid()
        self._is_cut = False

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        if name in ("connection.connect_tcp.complete", "connection.start_tls.complete", "proxy.stream.complete"):
            self._stream = info.get("return_value")
            if self._is_cut:
                self.cut()

    def cut(self) -> None:
        self._is_cut = True
        if self._process != os.getpid():
            return  # It would end the connection of the parent.
        of: Optional[Any] = self._stream and self._stream.get_extra_info("socket")
        if of is None:
            return
        try:
            # That of a TLS socket would wait for its reader.
            if isinstance(of, socket.socket):
                socket.socket.shutdown(of, socket.SHUT_RDWR)
            else:
                of.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass
