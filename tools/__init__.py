"""Programs for who maintains this repository, run by `make`. They are not part of the package."""
