"""Server-sent events: from bytes to frames. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Iterator, List, NamedTuple, Optional

#: The only ends of a line. ``str.splitlines`` knows eight more, which texts may contain.
_LINE_END = re.compile(r"\r\n|\r|\n")
#: Characters of one event. The server's largest events hold a message's text.
MAX_EVENT = 8_388_608


class TooLong(Exception):
    """A frame is longer than ``MAX_EVENT``."""


class Frame(NamedTuple):
    """What one frame says: each part is ``None`` if the frame lacks it."""

    position: Optional[str] = None
    """The ``id``. An empty one erases the position."""
    data: Optional[str] = None
    retry_ms: Optional[int] = None


class FrameParser:
    """Makes frames of the bytes of one connection, wherever these are cut."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._max_event = max_event
        #: The pieces of a line that has not ended.
        self._line: List[str] = []
        #: The characters of ``_line``, and of the lines of ``_data``.
        self._pending = 0
        self._size = 0
        self._data: List[str] = []
        self._position: Optional[str] = None
        self._is_first = True
        self._skips_line_feed = False

    def feed(self, content: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete.

        A frame counts when its blank line has come: a position without the rest of its frame is no position.

        :raises TooLong: if a frame is longer than the limit
        """
        text = self._decode(content)
        if self._skips_line_feed and text:
            self._skips_line_feed = False
            text = text[1:] if text[0] == "\n" else text
        start = 0
        for end in _LINE_END.finditer(text):
            self._line.append(text[start : end.start()])
            start = end.end()
            line = "".join(self._line)
            self._line.clear()
            self._pending = 0
            frame = self._take(line)
            if frame is not None:
                yield frame
        # The line feed of a pair may come with the next bytes.
        self._skips_line_feed = text.endswith("\r")
        rest = text[start:]
        if rest:
            self._line.append(rest)
            self._pending += len(rest)
            self._check()

    def _take(self, line: str) -> Optional[Frame]:
        if self._is_first:
            self._is_first = False
            line = line[1:] if line.startswith("\ufeff") else line
        if not line:
            frame = Frame(self._position, "\n".join(self._data) if self._data else None)
            self._data.clear()
            self._position = None
            self._size = 0
            return frame if frame != Frame() else None
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._data.append(value)
            self._size += len(line)
            self._check()
        elif name == "id" and "\0" not in value:
            self._position = value
        elif name == "retry" and re.fullmatch(r"[0-9]{1,15}", value):
            return Frame(retry_ms=int(value))
        return None

    def _check(self) -> None:
        if self._size + self._pending > self._max_event:
            raise TooLong()
