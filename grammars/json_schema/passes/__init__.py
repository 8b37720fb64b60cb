"""The passes of the normaliser: each a function from one schema object to an equivalent simpler one."""
