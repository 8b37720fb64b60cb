"""What a server shows of its requests: records of them, a page, spans."""
