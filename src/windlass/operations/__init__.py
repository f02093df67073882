"""What people see and do, once for the command line, the HTTP API, the terminal UI and the dashboard."""
