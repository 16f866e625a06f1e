"""Errors as values: checks inside programs, and the transformation that returns what they found."""
