"""The passes of the normaliser: each turns one schema object into an equivalent simpler one."""
