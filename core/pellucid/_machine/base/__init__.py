"""Foundations that all layers use: errors, options, events, sources, dtypes, trees."""

# Imported for other folders.
# pyright: reportUnusedImport=false

from .blocks import block
from .caching import CacheUse, cache_uses, cached, clear_caches, clearing
from .dims import (
    Size,
    Symbol,
    as_value,
    canonical_shape,
    canonical_size,
    dilated_size,
    exact_quotient,
    fits,
    is_static,
    known_at_least,
    larger,
    slice_window,
    smaller,
    strided_length,
    window_count,
)
from .errors import *
from .events import (
    CacheLooked,
    CallbackRan,
    CompilationFinished,
    Direction,
    EquationEntered,
    EquationStaged,
    Observer,
    PassFinished,
    StageEnded,
    StageStarted,
    TraceFinished,
    TracerLeaked,
    TransferFinished,
    TransferStarted,
    by_tool,
    is_by_tool,
    logger,
    observe,
    on,
    publish,
    stage_events,
)
from .functional import (
    bytes_text,
    copy_with_name,
    identity,
    identity_of_structure,
    insert_at,
    ints,
    merge_by_mask,
    name_of,
    replace_axis_size,
    strict_zip,
    wrapping,
)
from .interruption import interruptible
from .late import is_loaded
from .library_code import (
    NEUTRAL,
    is_own_constant,
    library_code,
    promotion,
    public_functions,
    users_function,
)
from .source import (
    Cell,
    ScopeStack,
    SourceFrame,
    call_site_of,
    called_by_user,
    capture,
    cell_name,
    describe,
    find_cells_with,
    frame_of,
    is_user_file,
    listing,
    user_frame,
    user_frames,
    user_places,
    warn_user,
)
from .tracebacks import is_filtered
from .tree import (
    KeyPath,
    Partial,
    TreeError,
    broadcast_prefix,
    broadcast_prefix_to,
    is_none,
    keystr,
    leaf_paths,
    leaf_type,
    register_pytree_node,
    register_pytree_node_class,
    shown_path,
    structure_differences,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_structure,
)
from .typing import (
    ArrayLike,
    Axes,
    Binary,
    DTypeLike,
    Function,
    Ints,
    Keywords,
    Names,
    Shape,
    StaticScalar,
    Unary,
)
