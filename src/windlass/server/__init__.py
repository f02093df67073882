"""The HTTP API: a table of typed routes over a store, and the OpenAPI document that describes them."""
