"""The memory store: the contracts over dicts, calling `core` directly. It is the specification of the other two."""

from windlass.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
