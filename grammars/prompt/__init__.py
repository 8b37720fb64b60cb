"""The prompt: messages for the template, descriptions of tools and formats, escaped special tokens, anchors."""
