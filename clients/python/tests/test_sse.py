"""Frames: the only ends of a line are LF, CR and CRLF, wherever bytes are cut."""

from __future__ import annotations

from typing import List

import pytest

from interlock_client._sse import Frame, FrameParser, TooLong

#: All that `str.splitlines` splits at, and what else is white space.
SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\x00\x1f\u00a0\u200b\ufeff 😀\t"


def frames_of(content: bytes, size: int) -> List[Frame]:
    parser = FrameParser()
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return [frame for piece in pieces for frame in parser.feed(piece)]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_every_other_separator_stays_in_its_line_wherever_bytes_are_cut(end: str) -> None:
    lines = ["\ufeffretry: 20", ": a comment", "id: e.1", f"data: a{SEPARATORS}b", "data:c", "", "event: x", "id: e.2", "", ""]
    content = end.join(lines).encode()
    wanted = [Frame(retry_ms=20), Frame("e.1", f"a{SEPARATORS}b\nc"), Frame("e.2")]
    for size in range(1, len(content) + 1):
        assert frames_of(content, size) == wanted


def test_a_position_counts_when_its_frame_is_complete() -> None:
    assert frames_of(b"id: e.1\ndata: x\n", 100) == []
    assert frames_of(b"id: e.1\ndata: x\n\nid: e.2\ndata: ", 100) == [Frame("e.1", "x")]


def test_what_is_no_field_is_skipped() -> None:
    assert frames_of(b"id\ndata\nretry: soon\nretry: -1\nid: a\0b\nid: ok\nnonsense\n\n\n\n", 100) == [Frame("ok", "")]


def test_bytes_that_are_no_text_end_no_stream() -> None:
    assert frames_of(b"data: \xff\xfe\n\ndata: \xe2\x80\n\n", 1) == [Frame(None, "\ufffd\ufffd"), Frame(None, "\ufffd")]


@pytest.mark.parametrize("content", [b"data: " + b"x" * 100, b"data: 123\n" * 12, b"data\n" * 30])
def test_a_frame_that_is_too_long_is_refused_before_it_is_kept(content: bytes) -> None:
    with pytest.raises(TooLong):
        list(FrameParser(max_event=99).feed(content))
    assert len(list(FrameParser(max_event=99).feed((b"data: " + b"x" * 80 + b"\n\n") * 50))) == 50
