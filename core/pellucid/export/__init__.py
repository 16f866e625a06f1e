"""`pellucid.export`: programs that outlive the process, in files that jax reads and writes, too."""

from pellucid.export.checks import DisabledSafetyCheck as DisabledSafetyCheck
from pellucid.export.errors import (
    ExportError as ExportError,
    SerializationError as SerializationError,
    UnexportableError as UnexportableError,
)
from pellucid.export.exported import (
    Exported as Exported,
    deserialize as deserialize,
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from pellucid.export.exporting import (
    default_export_platform as default_export_platform,
    export as export,
)
from pellucid.export.scopes import SymbolicScope as SymbolicScope
from pellucid.export.symbolic import (
    is_symbolic_dim as is_symbolic_dim,
    symbolic_args_specs as symbolic_args_specs,
    symbolic_shape as symbolic_shape,
)
from pellucid.export.trees import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]
