"""`windlass top`: live pages for tasks, queues, pools and nodes in the terminal. Needs the extra `tui`."""
