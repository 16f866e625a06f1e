"""Modules below `experimental.sparse` show the names that the reference's show."""

import importlib

import pytest

from pellucid.experimental import sparse

NAMES = {
    "ad": "grad jacfwd jacobian jacrev value_and_grad",
    "api": "empty eye todense todense_p",
    "bcoo": """BCOO bcoo_broadcast_in_dim bcoo_concatenate bcoo_conv_general_dilated bcoo_dot_general
        bcoo_dot_general_sampled bcoo_dynamic_slice bcoo_eliminate_zeros bcoo_extract bcoo_fromdense bcoo_gather
        bcoo_multiply_dense bcoo_multiply_sparse bcoo_reduce_sum bcoo_reshape bcoo_rev bcoo_slice bcoo_sort_indices
        bcoo_squeeze bcoo_sum_duplicates bcoo_todense bcoo_transpose bcoo_update_layout""",
    "bcsr": """BCSR bcsr_broadcast_in_dim bcsr_concatenate bcsr_dot_general bcsr_eliminate_zeros bcsr_extract
        bcsr_fromdense bcsr_sum_duplicates bcsr_todense""",
    "coo": "COO COOInfo coo_fromdense coo_matmat coo_matvec coo_todense",
    "csr": "CSC CSR csr_fromdense csr_matmat csr_matvec csr_todense",
    "random": "random_bcoo",
    "transform": "SparseTracer sparsify",
    "util": "CuSparseEfficiencyWarning SparseEfficiencyError SparseEfficiencyWarning SparseInfo",
}
"""Public names that release 0.10.2 of the reference defines in each of its modules and that exist here."""


@pytest.mark.parametrize("module", NAMES)
def test_a_module_shows_the_names_of_the_references(module):
    names = NAMES[module].split()
    gathered = importlib.import_module(f"pellucid.experimental.sparse.{module}")
    assert getattr(sparse, module) is gathered
    assert set(names) <= set(gathered.__all__)
    for name in gathered.__all__:
        assert name == "COOInfo" or getattr(gathered, name) is getattr(sparse, name)
