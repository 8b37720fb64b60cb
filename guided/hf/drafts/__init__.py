"""Drafts: tokens that are guessed, tried on the grammar, and fed ahead to be checked by the model."""
