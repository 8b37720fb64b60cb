"""The values that a schema allows, by JSON type: shapes, sets of numbers, equality."""
