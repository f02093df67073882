"""Live events for the event stream: one poll of the store feeds all subscribers."""
