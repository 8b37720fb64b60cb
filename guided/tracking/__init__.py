"""The position of a sequence: its regions and its committed tokens."""
