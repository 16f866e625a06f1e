"""The wire format of protocol buffers, in which XLA writes recordings and programs, for tools."""

from pellucid._machine.xla.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH_DELIMITED,
    VARINT,
    fields,
    message_field,
    number_field,
    varint,
)

__all__ = [
    "FIXED32", "FIXED64", "LENGTH_DELIMITED", "VARINT", "fields", "message_field", "number_field", "varint",
]  # fmt: skip
