"""Maps from the text of a program at each step of compilation to the user's source, as `jax.experimental.source_mapper`.

They are source maps of ECMA-426, which editors and viewers show side by side with the generated text.

>>> dumps = generate_sourcemaps(lambda x: pl.numpy.sin(x) + 1, filter_passes("jaxpr"))(1.0)
>>> print(dumps[0].generated_code)
{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = add b 1.0:f32[] in (c,) }
"""

from . import (
    common as common,
    generate_map as generate_map,
    hlo as hlo,
    jaxpr as jaxpr,
    mlir as mlir,
)
from .common import (
    Pass as Pass,
    SourceMapDump as SourceMapDump,
    all_passes as all_passes,
    compile_with_env as compile_with_env,
    filter_passes as filter_passes,
    register_pass as register_pass,
)
from .generate_map import generate_sourcemaps as generate_sourcemaps
from .jaxpr import canonicalize_filename as canonicalize_filename
from .mlir import create_mlir_sourcemap as create_mlir_sourcemap
from .source_map import MappingsGenerator as MappingsGenerator, SourceMap as SourceMap
