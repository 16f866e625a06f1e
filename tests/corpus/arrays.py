"""What the reference's arrays say of themselves."""

import copy
import pickle
import warnings

import ml_dtypes
import numpy as np

DTYPES = (
    "float32", "int32", "bool", "int8", "uint32", "float16", "complex64", "bfloat16",
    "float8_e4m3fn", "int4", "uint8",
)  # fmt: skip
SHAPES = ((), (1,), (0,), (3, 0), (5,), (17,), (3, 4), (2, 3, 4), (1001,), (40, 40), (3, 1))


def values():
    """Arrays of many shapes, dtypes and magnitudes."""
    random = np.random.RandomState(0)
    found = [np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)]
    for shape in SHAPES:
        for name in DTYPES:
            dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
            for scale in (1, 1e4):
                value = np.asarray(random.randn(*shape) * scale)
                if dtype.kind in "iu" or name == "int4":
                    value = np.clip(np.abs(value), 0, 7)
                with np.errstate(over="ignore", invalid="ignore"):
                    found.append(value.astype(dtype))
    return found


def texts_of(put):
    """repr, str and default format of each value, as an array made by `put`."""
    texts = [(repr(a), str(a), f"{a}") for a in map(put, values())]
    with np.printoptions(precision=2, threshold=5, linewidth=40):
        random = np.random.RandomState(1)
        for shape in ((30,), (3, 30), ()):
            a = put(np.asarray(random.randn(*shape), np.float32))
            texts.append((repr(a), str(a), f"{a}"))
    return texts


def texts(jax):
    return texts_of(jax.numpy.asarray)


CONVERSIONS = {
    "int": int,
    "float": float,
    "complex": complex,
    "bool": bool,
    "len": len,
    "index": lambda a: a.__index__(),
    "format": lambda a: format(a, ".3f"),
    "item": lambda a: a.item(),
    "tolist": lambda a: a.tolist(),
    "tobytes": lambda a: a.tobytes(),
    "second item": lambda a: a.item(1),
    "nbytes": lambda a: (a.nbytes, a.itemsize, a.size, a.ndim),
    "numpy": lambda a: np.asarray(a).flags.writeable,
    "numpy copy": lambda a: np.array(a).flags.writeable,
    "numpy dtype": lambda a: np.asarray(a, dtype=np.float16).tolist(),
    "numpy without copy": lambda a: np.array(a, copy=False).tolist(),
    "numpy dtype without copy": lambda a: np.asarray(a, dtype=np.int16, copy=False).tolist(),
    "read-only memory": lambda a: memoryview(a).readonly,
    "pickle": lambda a: pickle.loads(pickle.dumps(a)).tolist(),
    "copy": lambda a: (copy.copy(a).tolist(), copy.copy(a) is a),
    "deepcopy": lambda a: copy.deepcopy(a).tolist(),
    "numpy dlpack": lambda a: np.from_dlpack(a).tolist(),
    "dlpack device": lambda a: tuple(map(int, a.__dlpack_device__())),
    "platform": lambda a: a.platform(),
    "cuda": lambda a: a.__cuda_array_interface__,
    "buffer": lambda a: a.device_buffer,
    "hash": hash,
}


def conversions_of(put):
    """For each conversion of each of some arrays: its result, or the builtin classes of its error."""
    samples = (
        np.ones(1, np.float32), np.ones((1, 1), np.float32), np.arange(3, dtype=np.float32),
        np.float32(2.5), np.int32(2), np.bool_(True), np.complex64(1 + 2j), np.zeros(0, np.float32),
        np.asarray(1, ml_dtypes.bfloat16), np.arange(2, dtype=np.int8),
    )  # fmt: skip
    results = []
    for sample in samples:
        for name, convert in CONVERSIONS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NumPy warns of complex numbers losing a part
                    found, classes = convert(put(sample)), ()
            except Exception as error:
                found = None
                classes = [c for c in type(error).__mro__ if c.__module__ == "builtins"]
            results.append(((sample.dtype.name, sample.shape, name, found), classes))
    return results


def conversions(jax):
    return conversions_of(jax.numpy.asarray)
