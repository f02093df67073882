"""What an application uses: apps, handlers, handles, workflows, and the way to the store."""
