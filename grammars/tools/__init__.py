"""Tools and ``tool_choice`` as callers pass them, custom tools, and the parameters of a tool."""
