"""Classes of errors: those of `jax.errors`, and all others that pellucid raises.

`except` clauses written for the reference keep working; `PellucidError` is the base of all of ours. They have fields (`what`, `got`, `where`, `do`).
`JaxRuntimeError` is jaxlib's own.
"""

from pellucid._machine.base.dims import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
)
from pellucid._machine.base.errors import (
    AgreementError as AgreementError,
    ArgumentTypeError as ArgumentTypeError,
    ArgumentValueError as ArgumentValueError,
    ArrayConversionError as ArrayConversionError,
    AxisError as AxisError,
    AxisNameError as AxisNameError,
    BatchingRuleError as BatchingRuleError,
    CacheError as CacheError,
    CallbackBatchingError as CallbackBatchingError,
    CallbackError as CallbackError,
    CollectiveError as CollectiveError,
    CompilationError as CompilationError,
    CompilerOptionError as CompilerOptionError,
    ConcretizationTypeError as ConcretizationTypeError,
    ConfigError as ConfigError,
    DeletedArrayError as DeletedArrayError,
    DerivativeRuleError as DerivativeRuleError,
    DeviceError as DeviceError,
    DistributedError as DistributedError,
    DistributedTimeoutError as DistributedTimeoutError,
    DtypeError as DtypeError,
    EffectsError as EffectsError,
    ExecutionError as ExecutionError,
    ForbiddenError as ForbiddenError,
    IndexingError as IndexingError,
    IntegerRangeError as IntegerRangeError,
    IrreversibleLoopError as IrreversibleLoopError,
    JAXIndexError as JAXIndexError,
    JaxprTypeError as JaxprTypeError,
    JAXTypeError as JAXTypeError,
    KeyReuseError as KeyReuseError,
    LeakError as LeakError,
    MissingFieldError as MissingFieldError,
    MissingRule as MissingRule,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    NonFiniteError as NonFiniteError,
    OutOfMemoryError as OutOfMemoryError,
    PeerFailureError as PeerFailureError,
    PellucidError as PellucidError,
    PlatformError as PlatformError,
    RemovedError as RemovedError,
    ShapeError as ShapeError,
    TracerArrayConversionError as TracerArrayConversionError,
    TracerBoolConversionError as TracerBoolConversionError,
    TracerIntegerConversionError as TracerIntegerConversionError,
    TransferGuardError as TransferGuardError,
    UnexpectedTracerError as UnexpectedTracerError,
    UnsupportedError as UnsupportedError,
    XlaError as XlaError,
)
from pellucid._machine.base.tree.errors import (
    CyclicTreeError as CyclicTreeError,
    TreeArgumentError as TreeArgumentError,
    TreeError as TreeError,
    TreeStructureError as TreeStructureError,
    TreeTransposeError as TreeTransposeError,
    UnsortableKeysError as UnsortableKeysError,
)
from pellucid._machine.checks.errors import (
    CheckError as CheckError,
)
from pellucid._machine.sharding.errors import (
    AbstractPlacementError as AbstractPlacementError,
    DuplicateAxisError as DuplicateAxisError,
    IndivisibleError as IndivisibleError,
    LayoutAssertionError as LayoutAssertionError,
    LayoutError as LayoutError,
    MemoryKindError as MemoryKindError,
    MeshError as MeshError,
    MissingMeshError as MissingMeshError,
    PartitionSpecError as PartitionSpecError,
    ShardingArgumentError as ShardingArgumentError,
    ShardingError as ShardingError,
    ShardingTypeError as ShardingTypeError,
)
from pellucid._machine.transforms.derivative_checks import (
    DerivativeMismatchError as DerivativeMismatchError,
)
from pellucid._machine.xla import JaxRuntimeError as JaxRuntimeError
