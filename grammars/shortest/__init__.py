"""Shortest texts: of grammar nodes, schema instances, subschemas, and of a plan's parts."""
