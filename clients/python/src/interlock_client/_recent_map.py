"""A bounded map. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Iterator, List, Optional, Tuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentMap(Generic[K, V]):
    """When it is full, a new entry replaces the one that was written longest ago."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: "OrderedDict[K, V]" = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> Optional[V]:
        return self._entries.get(key)

    def set(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def delete(self, key: K) -> None:
        if key in self._entries:
            del self._entries[key]

    def clear(self) -> None:
        self._entries.clear()

    def items(self) -> List[Tuple[K, V]]:
        """The present entries; they may be deleted meanwhile."""
        return list(self._entries.items())

    def values(self) -> Iterator[V]:
        return iter(list(self._entries.values()))
