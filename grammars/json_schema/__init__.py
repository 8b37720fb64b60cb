"""JSON Schema compiled to grammar nodes, with a report of what the masks enforce."""
