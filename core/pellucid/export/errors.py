"""Errors of exporting, of calling exported programs, and of their files."""

from pellucid._machine.base import PellucidError


class ExportError(PellucidError, ValueError):
    """A function that can't be exported, or an exported program that can't be called as it is."""


class UnexportableError(ExportError, NotImplementedError):
    """A program that contains something that can't outlive its process."""


class SerializationError(ExportError, TypeError):
    """An exported program that can't be written to bytes, or bytes that are no exported program."""
