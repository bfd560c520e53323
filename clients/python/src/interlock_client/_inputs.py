"""What methods take as a mapping."""

from __future__ import annotations

from typing import List, Optional, TypedDict


class ImageInput(TypedDict, total=False):
    """An image of a message: at most 8, of 1,048,576 characters of base64 each."""

    data: str
    """Base64, or a ``data:`` URI. Required."""
    mimeType: str
    """``image/…``; needed without a ``data:`` URI."""


class DefinitionSettings(TypedDict, total=False):
    """The fields of an agent that is defined in the database. What is left out is inherited from the agent that it is based
    on; in a change it stays, and ``None`` resets it."""

    basedOn: str
    """The agent of the catalogue's file whose model it uses, and at most whose tools."""
    label: Optional[str]
    description: Optional[str]
    instructions: Optional[str]
    tools: Optional[List[str]]
    maxSteps: Optional[int]
    subAgents: Optional[List[str]]
    maxDepth: Optional[int]
    priority: Optional[int]
    interruptible: Optional[bool]
    enabled: Optional[bool]
