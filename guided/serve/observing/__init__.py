"""Records of the requests of a server, and what shows them: a page, spans."""
