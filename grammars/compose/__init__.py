"""From the parts of a request to a plan."""
