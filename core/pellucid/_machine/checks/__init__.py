"""Checks inside programs, and the transformation `checkify`, which returns the first failure as a value."""
