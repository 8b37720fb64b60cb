"""The schema document: locations, dialects, references, string formats."""
