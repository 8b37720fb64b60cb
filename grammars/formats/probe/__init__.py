"""Render sample conversations with a chat template and read its conventions off the results."""
