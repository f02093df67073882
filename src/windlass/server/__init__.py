"""The HTTP API: a table of typed routes over a store, the requests it serves and the document that describes them."""
