"""The client of Interlock, which decides which agent session has the floor.

:class:`Client` blocks, :class:`AsyncClient` is for ``asyncio``; both have the same methods. :mod:`interlock_client.types` has
the types of answers and events.
"""

from . import types
from ._async_client import AsyncClient
from ._async_io import AsyncLease
from ._async_stream import AsyncEventStream
from ._blocking_io import Lease
from ._client import Client
from ._errors import ClientError
from ._inputs import DefinitionSettings, ImageInput
from ._positions import seq_of
from ._stream import EventStream
from ._stream_state import StreamStatus
from ._texts import MessageText, MessageTexts, utf16_index, utf16_length

__all__ = [
    "AsyncClient",
    "AsyncEventStream",
    "AsyncLease",
    "Client",
    "ClientError",
    "DefinitionSettings",
    "EventStream",
    "ImageInput",
    "Lease",
    "MessageText",
    "MessageTexts",
    "StreamStatus",
    "seq_of",
    "types",
    "utf16_index",
    "utf16_length",
]
__version__ = "0.1.0"
