"""Calls of cuDNN's attention in programs for GPUs, of pellucid or the reference: `python calls.py > calls.json` records the reference's."""

import json
import re
from typing import Any

B, T, S, N, H = 2, 16, 32, 4, 64
NARROW = 128
"""Length and head size of numbers of 8 bits that are differentiated."""
CASES = {
    "dropout": "grad(lambda q, k, v: f(q, k, v, dropout_rate=0.1, seed=7))(q, k, k)",
    "causal": "grad(lambda q, k, v: f(q, k, v, mask_type=M.CAUSAL, scale=0.5))(q, k, k)",
    "window": "grad(lambda q, k, v: f(q, k, v, mask_type=M.CAUSAL, sliding_window_length=5))(q, k, k)",
    "fewer heads of keys": "grad(f)(q, few, few)",
    "lengths": "grad(lambda q, k, v: f(q, k, v, q_seqlen=n, kv_seqlen=n, mask_type=M.PADDING_CAUSAL))(q, k, k)",
    "bias": "grad(f, 4)(q, k, k, bias)",
    "bias of each example": "grad(f, 4)(q, k, k, own)",
    "bias and dropout": "grad(lambda q, k, v, b: f(q, k, v, b, dropout_rate=0.25, seed=3), 4)(q, k, k, bias)",
    "residuals": "f(q, k, k, return_residual=True)",
    "head size 256": "grad(f)(q256, k256, k256)",
    "values of another size": "grad(f)(q192, k192, k128)",
    "packed": "grad(lambda q, k, v: f(q, k, v, q_seqlen=lengths, kv_seqlen=lengths, q_offsets=offsets, kv_offsets=offsets, mask_type=M.PADDING))(q, k, k)",
    "pages": "p(q, pool, pool, n, n, table, table, mask_type=M.PADDING)",
    "pages, bias, residuals": "p(q, pool, pool, n, n, table, table, bias, mask_type=M.PADDING_CAUSAL, return_residual=True)",
    "8 bits": "f(q8, k8, k8, use_fp8=True, fp8_params=factors)",
    "8 bits, causal": "f(q8, k8, k8, use_fp8=True, fp8_params=factors, mask_type=M.CAUSAL)",
    "8 bits, differentiated": "grad(lambda q, k, v: f(q, k, v, use_fp8=True, fp8_params=factors)[0])(w8, w8, w8)",
}  # fmt: skip
"""Programs, with the public names of both: `f` is attention, `p` paged attention, `M` the kinds of masks; the last argument of `grad` is the number of operands."""
FACTORS = [
    "amax_dK",
    "amax_dP",
    "amax_dQ",
    "amax_dV",
    "descale_dO",
    "descale_dP",
    "descale_k",
    "descale_o",
    "descale_q",
    "descale_s",
    "descale_v",
    "scale_dK",
    "scale_dP",
    "scale_dQ",
    "scale_dV",
    "scale_o",
    "scale_s",
]
_DEFAULTS = {
    "dim_level_types", "dim_unique", "dim_ordered", "element_size_in_bits", "index_primitive_type", "pointer_primitive_type",
    "dynamic_shape_metadata_prefix_bytes",
}  # fmt: skip


def operands(np: Any, dtypes: Any) -> dict[str, Any]:
    """The arrays that the programs name."""
    zeros = lambda *shape, dtype="bfloat16": np.zeros(shape, getattr(dtypes, dtype))
    ints = lambda *shape: zeros(*shape, dtype="int32")
    found = {
        "q": zeros(B, T, N, H), "k": zeros(B, S, N, H), "few": zeros(B, S, 2, H), "n": ints(B), "bias": zeros(1, N, T, S),
        "own": zeros(B, 1, T, S), "lengths": ints(B, 3), "offsets": ints(B, 4), "pool": zeros(4, 16, N, H), "table": ints(B, 1, 2, 1),
        "q8": zeros(B, T, N, H, dtype="float8_e4m3fn"), "k8": zeros(B, S, N, H, dtype="float8_e4m3fn"),
        "w8": zeros(B, NARROW, N, NARROW, dtype="float8_e4m3fn"), "factors": {name: zeros(1, 1, 1, 1, dtype="float32") for name in FACTORS},
    }  # fmt: skip
    for size in (128, 192, 256):
        found |= {f"q{size}": zeros(B, T, N, size), f"k{size}": zeros(B, S, N, size)}
    return found


def texts_of_calls(text: str) -> list[list[Any]]:
    """[target, configuration, layouts, types] of each call in a program."""
    found = re.findall(r'custom_call @__cudnn\$fmha(\w+)\(.*?backend_config = "(.*?)", (.*?)\} : (.*)', text)  # fmt: skip
    calls = []
    for name, config, layouts, types in found:
        attention = json.loads(config.replace("\\22", '"'))["cudnn_fmha_backend_config"]
        if not attention.get("dropout_rate"):
            attention.pop("seed", None)  # nothing depends on it
        layout = attention["intermediate_tensor_shape"]["layout"]
        attention["intermediate_tensor_shape"]["layout"] = {k: v for k, v in layout.items() if k not in _DEFAULTS}  # fmt: skip
        calls.append([name, attention, layouts, types])
    return calls


def function_of(library: Any, cudnn: Any, case: str) -> Any:
    """The program as a function of its operands by name."""

    def grad(function: Any, n: int = 3) -> Any:
        return library.grad(lambda *xs: function(*xs).astype("float32").sum(), argnums=tuple(range(n)))  # fmt: skip

    names = {"f": cudnn.dot_product_attention, "p": cudnn.paged_attention, "M": cudnn.MaskType, "grad": grad}  # fmt: skip
    return lambda values: eval(CASES[case], {**names, **values})


def lowered(library: Any, cudnn: Any, case: str, np: Any) -> str:
    """The StableHLO of a program for NVIDIA GPUs."""
    function = library.jit(function_of(library, cudnn, case))
    traced = function.trace(operands(np, library.numpy))
    return traced.lower(lowering_platforms=("cuda",)).as_text()


if __name__ == "__main__":
    import jax
    import jax._src.cudnn.fused_attention_stablehlo as module
    import numpy as np

    module.check_cudnn_version = lambda: 91300
    module.check_compute_capability = lambda capability: True
    module.is_cuda_compute_capability_equal = lambda capability: capability == "9.0"
    found = {case: texts_of_calls(lowered(jax, module, case, np)) for case in CASES}
    lines = [f"{json.dumps(case)}: {json.dumps(calls)}" for case, calls in found.items()]
    print("{\n" + ",\n".join(lines) + "\n}")
