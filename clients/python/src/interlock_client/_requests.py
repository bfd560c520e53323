"""Requests and their repeats. Pure."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode

from ._errors import ClientError

#: Attempts of a request, unless its client is patient. The last failure is raised.
_MAX_TRIES = 5
_FIRST_WAIT_S = 0.2
_MAX_WAIT_S = 5.0
#: If the server asks for a longer delay than this, the failure is raised at once.
_MAX_RETRY_AFTER_S = 10.0
#: The time for one attempt of a request that copies a history.
_LONG_TIMEOUT_S = 600.0
#: Bytes of an answer. The server's largest pages have 4 MiB, its largest exports 256 MiB.
_MAX_ANSWER = 67_108_864
_MAX_FILE = 536_870_912

_KEY = re.compile(r"[\x21-\x7e]{1,128}")

Headers = Mapping[str, str]


@dataclass(frozen=True)
class Settings:
    """What all requests of a client have in common."""

    base_url: str
    timeout_s: float
    patience_s: float
    random: Callable[[], float]

    @property
    def origin(self) -> str:
        return "/".join(self.base_url.split("/", 3)[:3])


@dataclass(frozen=True)
class Request:
    method: str
    #: The segments of the path, unencoded.
    path: Sequence[str]
    #: Parameters; those with ``None`` are left out, a list is repeated for each of its entries.
    query: Mapping[str, Any] = field(default_factory=dict)
    #: The fields of a JSON body; those with ``None`` are left out.
    body: Mapping[str, Any] = field(default_factory=dict)
    #: The type and the bytes of a body that is not JSON.
    content: Optional[Tuple[str, bytes]] = None
    idempotency_key: Optional[str] = None
    #: The request may take minutes, because a history is copied.
    is_long: bool = False
    #: The answer is a file: it has no bound but that of a history.
    is_file: bool = False
    #: A status besides 200 that counts as success.
    accepts: int = 200
    #: Seconds for all attempts together.
    within_s: Optional[float] = None


@dataclass(frozen=True)
class Attempt:
    """One request as it is sent."""

    method: str
    url: str
    headers: Dict[str, str]
    content: Optional[bytes]
    timeout_s: float
    max_bytes: int


@dataclass(frozen=True)
class Answer:
    status: int
    content: bytes
    retry_after: Optional[str]


def settings_of(base_url: str, timeout_s: float, patience_s: float, random: Callable[[], float]) -> Settings:
    """:raises ValueError: if an option is not valid"""
    if not re.fullmatch(r"https?://[^?#\s]+", base_url, re.IGNORECASE):
        raise ValueError(f"base_url must be an address with http or https, without a query: {base_url}")
    if not timeout_s > 0:
        raise ValueError("timeout must be more than 0 seconds")
    if not patience_s >= 0:
        raise ValueError("patience must be 0 or more seconds")
    return Settings(base_url.rstrip("/"), timeout_s, patience_s, random)


def url_of(settings: Settings, path: Sequence[str], query: Mapping[str, Any]) -> str:
    """:raises ClientError: ``bad_request`` for text that cannot be an id"""
    pairs = [
        (name, "true" if one is True else "false" if one is False else str(one))
        for name, value in query.items()
        if value is not None
        for one in (value if isinstance(value, (list, tuple)) else [value])
    ]
    search = f"?{urlencode(pairs, errors='replace', quote_via=quote)}" if pairs else ""
    return f"{settings.base_url}/{'/'.join(map(_segment, path))}{search}"


class Exchange:
    """A request with its repeats. A write has an idempotency key, and is repeated with it."""

    def __init__(self, settings: Settings, request: Request, now: float) -> None:
        """
        :raises ClientError: ``bad_request`` for text that cannot be an id
        :raises ValueError: for a key that no header can hold, and for a body that JSON cannot hold
        """
        self._settings = settings
        self._request = request
        self._begun = now
        #: Attempts that failed, also those that were not sent, because there was no token.
        self._tries = 0
        self._url = url_of(settings, request.path, request.query)
        self._key = None if request.method == "GET" else request.idempotency_key or new_key()
        if self._key is not None and not _KEY.fullmatch(self._key):
            raise ValueError("an idempotency key has 1 to 128 visible ASCII characters")
        self._type, self._content = _content_of(request)

    def attempt(self, own_headers: Headers, now: float) -> Attempt:
        """The next attempt.

        :param own_headers: those of every request of this client
        """
        request = self._request
        timeout_s = _LONG_TIMEOUT_S if request.is_long else self._settings.timeout_s
        if request.within_s is not None:
            timeout_s = min(timeout_s, max(0.001, self._begun + request.within_s - now))
        headers = {name.lower(): value for name, value in own_headers.items()}
        if self._type is not None:
            headers["content-type"] = self._type
        if self._key is not None:
            headers["idempotency-key"] = self._key
        max_bytes = _MAX_FILE if request.is_file else _MAX_ANSWER
        return Attempt(request.method, self._url, headers, self._content, timeout_s, max_bytes)

    def wait_after(self, failure: ClientError, now: float) -> float:
        """How long to wait before the next attempt, in seconds.

        :raises ClientError: the failure, if the request is not to be sent again
        """
        if not failure.wants_repeat:
            raise failure
        self._tries += 1
        if self._key is not None:
            failure.facts["commandId"] = self._key
        retry_after_s = (failure.retry_after_ms or 0) / 1_000
        is_patient = self._key is not None and now - self._begun < self._settings.patience_s
        if retry_after_s > _MAX_RETRY_AFTER_S or (self._tries >= _MAX_TRIES and not is_patient):
            raise failure
        wait_s = max(retry_after_s, backoff(self._tries, _FIRST_WAIT_S, _MAX_WAIT_S, self._settings.random))
        within_s = self._request.within_s
        if within_s is not None and now + wait_s >= self._begun + within_s:
            raise failure
        return wait_s

    def is_success(self, status: int) -> bool:
        return 200 <= status < 300 or status == self._request.accepts


def backoff(failed: int, first_s: float, max_s: float, random: Callable[[], float]) -> float:
    """The pause before the next attempt, in seconds: it doubles with each failed one, and is a random value of its upper
    half, so that callers that failed together do not return together."""
    full_s = min(max_s, first_s * 2.0 ** min(failed - 1, 32))
    return full_s * (0.5 + random() / 2)


def new_key() -> str:
    """128 random bits. Those of the system: a forked process must not make its parent's keys."""
    return os.urandom(16).hex()


def to_bytes(text: Union[str, bytes]) -> bytes:
    """A text in UTF-8. A lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _content_of(request: Request) -> Tuple[Optional[str], Optional[bytes]]:
    if request.content is not None:
        return request.content
    body = {name: value for name, value in request.body.items() if value is not None}
    # Without a body a DELETE means the same as with an empty one.
    if request.method == "GET" or (request.method == "DELETE" and not body):
        return None, None
    # Escapes keep lone surrogates, which the server replaces.
    body = {name: None if value is NULL else value for name, value in body.items()}
    return "application/json", json.dumps(body, allow_nan=False).encode("ascii")


class _Null:
    """A field that is sent as null."""


NULL = _Null()


def _segment(text: str) -> str:
    """A segment of a path. An empty segment or a dot segment cannot be an id."""
    if re.fullmatch(r"\.{0,2}", text):
        raise ClientError("bad_request", f'"{text}" is not a valid id.')
    return quote(text, safe="", errors="replace")
