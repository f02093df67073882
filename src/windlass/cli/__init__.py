"""The command line: thin commands over the public API, one file for each group."""
