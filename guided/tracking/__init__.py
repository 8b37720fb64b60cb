"""Where a sequence is: its regions and its committed tokens."""
