"""A server that answers with given bytes."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any, Dict, List, NamedTuple, Optional

#: Breaks the connection without an answer.
CUT = b""
#: Ends an answer whose connection then stays open, without another byte.
STAYS = b"<stays open>"


class Heard(NamedTuple):
    line: str
    headers: Dict[str, str]
    body: bytes


class RawServer:
    """Each request, on a connection of its own, takes the next answer; the last one is repeated."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self.heard: List[Heard] = []
        self._sockets: List[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        #: Released for each answer that was sent.
        self.answered = threading.Semaphore(0)
        #: Released for each client that closed a connection that stays open.
        self.left = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in [self._server, *self._sockets]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._sockets.append(connection)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        heard = _read(connection)
        if heard is None:
            return
        answer = self._answers[min(len(self.heard), len(self._answers) - 1)]
        self.heard.append(heard)
        stays = answer.endswith(STAYS)
        try:
            connection.sendall(answer[: -len(STAYS)] if stays else answer)
        except OSError:
            pass  # The client did not want all of it.
        if not stays:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()
        self.answered.release()
        if stays and _is_left(connection):
            self.left.release()


def _is_left(connection: socket.socket) -> bool:
    """Waits until the client has closed the connection."""
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def _read(connection: socket.socket) -> Optional[Heard]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65_536)
    return Heard(line, headers, body)


def answer(body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(content)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def problem(code: str, status: int, retryable: bool = False, sentence: str = "No.", **facts: Any) -> bytes:
    headers = {"Retry_After": str(facts.pop("retry_after"))} if "retry_after" in facts else {}
    body = {"success": False, "errorCode": code, "error": sentence, "retryable": retryable, "traceId": "t", **facts}
    return answer(body, status, **headers)


def stream(content: bytes) -> bytes:
    """An event stream, which ends with its connection."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n" + content


def frame(seq: int, title: str = "", retry_ms: int = 0) -> bytes:
    """A logged event of the session `s`."""
    event = {
        "type": "session_updated",
        "data": {"title": title or f"title {seq}"},
        "timestamp": "2026-01-01T00:00:00.000Z",
        "sessionId": "s",
        "seq": seq,
    }
    return f"retry: {retry_ms}\nid: e.{seq}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def live_frame(kind: str, data: Any, position: Optional[str] = None) -> bytes:
    """An event that is not logged."""
    event = {"type": kind, "data": data, "timestamp": "2026-01-01T00:00:00.000Z", "sessionId": "s"}
    head = f"id: {position}\n" if position is not None else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


ENDED = live_frame("bye", {"reason": "ended"})
