"""Counts Python tokens of our core, from `base` to `parallel`, and of the reference's files of the same scope.

Comments, docstrings and layout don't count. The reference is the installed jax, read as text and never imported.
"""

import argparse
import ast
import importlib.metadata
import io
import sys
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 0.70
"""Ratio of all our tokens to all of the reference's that is aimed at."""

UNCOUNTED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """Folders of ours and the files of the reference that do the same, with the reason where that isn't plain."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    reason: str


SCOPES = (
    Scope(
        ("base",),
        ("config", "dtypes", "effects", "errors", "flatten_util", "frozen_dict", "hashable_array", "literals",
         "lru_cache", "monitoring", "pretty_printer", "source_info_util", "traceback_util", "tree", "tree_util",
         "typing", "util"),
        "options, dtypes, errors, trees, sources, caches and measurements; logging and deprecations have no counterpart",
    ),
    Scope(
        ("sharding",),
        ("layout", "mesh", "mesh_utils", "named_sharding", "op_shardings", "partition_spec", "sharding",
         "sharding_impls", "custom_partitioning_sharding_rule"),
        "descriptions of placement; the parser of sharding rules lies in ours, too",
    ),
    Scope(
        ("ir", "tracing", "transforms"),
        ("core", "abstract_arrays", "ad_util", "api_util", "basearray", "linear_util", "interpreters/ad",
         "interpreters/batching", "interpreters/partial_eval", "interpreters/remat", "lax/eval_jaxpr",
         "public_test_util", "../experimental/jet"),
        "programs, traces and transformations; partial_eval holds parts of all three; Taylor series and checks of "
        "derivatives lie in our transforms",
    ),
    Scope(("lowering",), ("interpreters/mlir",), "programs to StableHLO"),
    Scope(
        ("runtime", "compilation"),
        ("array", "cache_key", "compilation_cache", "compilation_cache_interface", "compiler", "dispatch",
         "distributed", "dlpack", "earray", "environment_info", "hardware_utils", "interpreters/pxla", "path",
         "xla_bridge",
         "clusters/cloud_tpu_cluster", "clusters/cluster", "clusters/k8s_cluster", "clusters/mpi4py_cluster",
         "clusters/ompi_cluster", "clusters/slurm_cluster", "../experimental/key_reuse/_core"),
        "clients, arrays, jobs of processes, executables, their cache on disk; uses of random keys are followed in ours",
    ),
    Scope(
        ("primitives",),
        ("lax/lax", "lax/slicing", "lax/windowed_reductions", "lax/convolution", "lax/special", "lax/fft",
         "lax/other", "lax/ann", "lax/scaled_dot", "lax/utils", "indexing", "xla_metadata", "xla_metadata_lib"),
        "first-order primitives, and slices with dynamic starts; lax/linalg is left out as our linalg is",
    ),
    Scope(
        ("higher_order",),
        ("ad_checkpoint", "api", "custom_api_util", "custom_batching", "custom_derivatives", "pjit", "stages",
         "lax/control_flow/__init__", "lax/control_flow/common", "lax/control_flow/conditionals",
         "lax/control_flow/loops", "lax/control_flow/solves"),
        "jit, loops, branches, custom rules, rematerialization",
    ),
    Scope(
        ("refs",),
        ("ref", "state/__init__", "state/discharge", "state/indexing", "state/primitives", "state/types",
         "state/utils"),
        "mutable references",
    ),
    Scope(
        ("parallel",),
        ("custom_partitioning", "lax/parallel", "pmap", "shard_map", "../experimental/multihost_utils"),
        "collectives and functions over devices, values and arrays of several processes",
    ),
)  # fmt: skip


LOADER = Scope(
    ("xla",),
    ("lib/__init__", "lib/mlir/__init__", "lib/mlir/dialects/__init__", "cloud_tpu_init"),
    "jaxlib for the rest of ours; much of it the reference has in the files above, so that its side is short here",
)
"""The folder below `base`: not in the ratio that is aimed at, but printed with it as our files above lean on it."""


def count_tokens(text: str) -> int:
    """Number of tokens of a Python source, without comments, docstrings and layout."""
    docstrings = set(positions_of_docstrings(ast.parse(text)))
    return sum(
        token.type not in UNCOUNTED and token.start not in docstrings
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


def positions_of_docstrings(tree: ast.Module) -> Iterable[tuple[int, int]]:
    """Line and column of every string that is a statement: docstrings of modules, classes, functions, constants."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node.value.value, str):
            yield node.lineno, node.col_offset


def reference_folder() -> Path:
    """Folder of the installed reference's sources.

    Raises: PackageNotFoundError if it isn't installed.
    """
    return Path(str(importlib.metadata.distribution("jax").locate_file("jax/_src")))


def count_ours(folders: Iterable[str]) -> int:
    """Tokens of our folders."""
    paths = [path for folder in folders for path in (ROOT / "core/pellucid" / folder).rglob("*.py")]
    return sum(count_tokens(path.read_text(encoding="utf-8")) for path in paths)


def count_theirs(names: Iterable[str]) -> int:
    """Tokens of files of the reference, named without their suffix."""
    folder = reference_folder()
    return sum(count_tokens((folder / f"{name}.py").read_text(encoding="utf-8")) for name in names)


def line(ours: int, theirs: int, text: str) -> str:
    """A row of the table that is printed."""
    return f"{ours:8} {theirs:8} {ours / theirs:5.2f}  {text}"


def label(scope: Scope, with_reason: bool) -> str:
    """Folders of a scope, and what it holds."""
    return ", ".join(scope.ours) + (f": {scope.reason}" if with_reason else "")


def main() -> int:
    """Print the counts by scope, and all together."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--reasons", action="store_true", help="say what each scope holds")
    options = arguments.parse_args()
    total_ours = total_theirs = 0
    print(f"{'ours':>8} {'theirs':>8} ratio  folders (jax {importlib.metadata.version('jax')})")
    for scope in SCOPES:
        ours, theirs = count_ours(scope.ours), count_theirs(scope.theirs)
        total_ours, total_theirs = total_ours + ours, total_theirs + theirs
        print(line(ours, theirs, label(scope, options.reasons)))
    print(line(total_ours, total_theirs, f"together; aim {LIMIT:.2f}"))
    ours, theirs = count_ours(LOADER.ours), count_theirs(LOADER.theirs)
    print(line(total_ours + ours, total_theirs + theirs, f"with {label(LOADER, options.reasons)}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
