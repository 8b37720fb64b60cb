"""Rows of the schema report that concern more than one keyword."""
