"""Parts of the core that libraries build on, under the names of `jax.extend`."""

from pellucid.extend import (
    backend as backend,
    core as core,
    linear_util as linear_util,
    lowering as lowering,
    mlir as mlir,
    random as random,
    sharding as sharding,
    source_info_util as source_info_util,
    xla as xla,
)
