"""The PostgreSQL store: many machines, one database, in the schema `windlass` beside whatever else is there."""

from windlass.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
