"""The PostgreSQL store: for many machines, in the schema `windlass` of a database."""

from windlass.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
