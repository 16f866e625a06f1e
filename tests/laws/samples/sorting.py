"""Rows for sorting and for the greatest elements."""

import numpy as np

from tests.laws.sample import Sample, array, values

NAN, INF = np.nan, np.inf
EDGES = values([[0.0, NAN, -0.0, INF, -1.0], [-NAN, -INF, 2.0, -0.0, 0.0]])
KEYS = values([[1, 0, 1, 0], [2, 1, 1, 2], [0, 0, 0, 0]])
DTYPES = ("bfloat16", "float16", "int8", "uint32", "bool", "float64", "int32")

samples = [
    Sample("lax.sort(x)", (array((3, 5)),), np.sort),
    Sample("lax.sort(x, 0)", (array((5, 2)),), lambda x: np.sort(x, 0)),
    Sample("lax.sort(x, 1)", (array((2, 4, 1, 2)),)),
    Sample("lax.sort(x)", (array((0,)),)),
    Sample("lax.sort(x)", (EDGES,), smooth=False),
    Sample("lax.sort((x, y))", (array((3, 4)), array((3, 4)))),
    Sample("lax.sort((x, y), num_keys=2)", (KEYS, array((3, 4))), wrt=(1,)),
    Sample(
        "lax.sort((x, y, z), dimension=0, num_keys=2)", (KEYS, KEYS, array((3, 4), "int32")), wrt=()
    ),
    Sample("lax.sort((x, y), is_stable=False)", (array((6,)), array((6,)))),
    Sample("lax.sort((x, y))", (array((6,), "int32"), array((6,)))),
    *(Sample("lax.sort(x)", (array((7,), dtype),)) for dtype in DTYPES),
    Sample(
        "lax.sort(x)",
        (values([1 + 2j, 1 + 1j, 0 + 5j, complex(NAN, 0), 1 - 1j], "complex64"),),
        wrt=(),
    ),
    Sample("lax.sort(x)", (array((5,), "complex64"),), agrees="close"),
    Sample("lax.sort_key_val(x, y, 0)", (array((4, 2)), array((4, 2)))),
    Sample("lax.top_k(x, 2)", (array((3, 5)),)),
    Sample("lax.top_k(x, 2, axis=0)", (array((4, 3)),)),
    Sample("lax.top_k(x, 2, axis=1)", (array((2, 4, 1, 3)),)),
    Sample("lax.top_k(x, 0)", (array((3,)),)),
    Sample("lax.top_k(x, 3)", (EDGES,), smooth=False, wrt=()),
    *(Sample("lax.top_k(x, 3)", (array((6,), dtype),)) for dtype in DTYPES),
    Sample("lax.approx_max_k(x, 2)", (array((3, 5)),), same_text=False),
    Sample("lax.approx_min_k(x, 2, reduction_dimension=0)", (array((4, 3)),)),
    Sample("lax.approx_max_k(x, 2, aggregate_to_topk=False)", (array((2, 3)),), wrt=()),
    Sample("lax.approx_max_k(x, 3, recall_target=0.5)", (array((8,), "bfloat16"),)),
]
