"""Errors as values: checks inside programs, and the transformation that returns the first failure."""
