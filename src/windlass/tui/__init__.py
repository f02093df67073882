"""`windlass top`: live pages for tasks, queues, pools and nodes in the terminal, over any store; the extra `tui`."""
