"""The plan: everything that guides one answer, as one immutable value, and its msgpack form."""
