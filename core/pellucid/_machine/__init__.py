"""The machine behind the public names: trace, transform, lower, compile, run.

Rooms from the bottom up; each imports only what stands above it here. ARCHITECTURE.md says what each is.

    xla                           jaxlib
    base                          options, dtypes, errors, events, pytrees, caches
    sharding                      descriptions of placement
    ir                            types, primitives, jaxprs
    tracing                       a Python call becomes a jaxpr
    lowering                      a jaxpr becomes StableHLO
    primitives, runtime           operations with all their rules; arrays, transfers, running
    compilation, transforms       passes and caches; jvp, linearize, transpose, vmap
    higher_order                  operations that hold programs: jit, cond, scan, custom derivatives
    refs                          mutable cells
    parallel                      collectives, shard_map
    callbacks, checks             Python called from compiled code; errors as values
    linalg                        decompositions
"""
