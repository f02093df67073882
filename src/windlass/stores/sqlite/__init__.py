"""The SQLite store: one file, many processes, one writer at a time."""

from windlass.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
