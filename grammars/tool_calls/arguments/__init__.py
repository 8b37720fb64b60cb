"""Arguments that a syntax writes one by one instead of as one JSON object."""
