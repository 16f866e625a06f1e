"""Temporary."""
import numpy as np, ml_dtypes
float0 = np.dtype([("float0", np.void, 0)])
bfloat16=np.dtype(ml_dtypes.bfloat16)
class ExtendedDType: pass
_short={'float':'f','int':'i','uint':'u','complex':'c','bfloat':'bf'}
def short_name(d):
    import re
    if d==float0: return 'float0'
    n=d.name
    m=re.fullmatch(r'(float|int|uint|complex|bfloat)(\d+)',n)
    return _short[m[1]]+m[2] if m else n
def is_inexact(d): return d.kind in 'fc' or d==bfloat16 or 'float' in d.name and d!=float0
def tangent_dtype(d): return d if is_inexact(d) else float0
def item_bytes(d): return d.itemsize
from pellucid.xla import flags as _flags
_32={np.dtype('f8'):np.dtype('f4'),np.dtype('i8'):np.dtype('i4'),np.dtype('u8'):np.dtype('u4'),np.dtype('c16'):np.dtype('c8')}
def canonicalize(d):
    return d if _flags.enable_x64.value else _32.get(d,d)
