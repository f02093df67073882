"""The machinery of the HTTP server: routing, OpenAPI, middleware, authentication, streaming."""
