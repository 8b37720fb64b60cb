"""Regex syntaxes parsed into regular languages: ECMA-262, Python and Rust."""
