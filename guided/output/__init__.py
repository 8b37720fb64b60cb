"""From token ids to messages: the parser and the typed message."""
