# Classes and functions of operations, generated for each release; MLIR checks their operands itself.

from typing import Any

def __getattr__(name: str) -> Any: ...
