"""The JSON shapes that HTTP responses and `--json` share."""
