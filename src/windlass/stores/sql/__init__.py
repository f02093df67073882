"""The half that the two SQL stores share: lock rows, let `core` decide, write rows. Each dialect has its own folder."""
