"""Networks from .onnx files as functions: jitted, differentiated and trained further like any other.

    network, params = read("model.onnx")
    probabilities, = network(params, images)          # as the file says it
    pl.jit(pl.grad(lambda params: loss(network(params, images)[0])))(params)

A file is one protobuf message, a graph of operators on named values (github.com/onnx/onnx, onnx.proto). Here are some twenty operators,
as of version 13 of the set; a further one is a function in `OPERATORS`. What isn't known raises: operators, attributes, types.
"""

import struct
from pathlib import Path

import numpy as np

import pellucid.numpy as jnp
from pellucid import lax, nn

OLDEST_OPERATORS = 13

# Protobuf -------------------------------------------------------------------------------------------


def varint(data, at):
    """(the number that begins at position `at`, the position behind it): seven bits in each byte, the lowest first."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value - (1 << 64) if value >> 63 else value, at


def fields(data):
    """The fields of a message: a list of contents by number, integers or bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            content, at = varint(data, at)
        elif kind in (1, 2, 5):
            size, at = varint(data, at) if kind == 2 else (8 if kind == 1 else 4, at)
            content, at = data[at : at + size], at + size
        else:
            raise ValueError(f"this is no ONNX file: a field has kind {kind}")
        found.setdefault(key >> 3, []).append(content)
    if at > len(data):
        raise ValueError("this ONNX file is not whole")
    return found


def integers(contents):
    """Numbers of a repeated field, written one by one or many in one field."""
    numbers = []
    for content in contents:
        at = 0
        while type(content) is bytes and at < len(content):
            number, at = varint(content, at)
            numbers.append(number)
        if type(content) is int:
            numbers.append(content)
    return numbers


def text(message, number):
    """The text of a field, empty if there is none."""
    return message.get(number, [b""])[-1].decode()


DTYPES = {
    1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8",
}  # fmt: skip


def tensor(data):
    """(name, NumPy array) of a TensorProto."""
    message = fields(data)
    kind, shape = message[2][-1], integers(message.get(1, []))
    if kind not in DTYPES or 14 in message:
        raise NotImplementedError(
            f"tensor {text(message, 8)!r}: type {kind}, or data in another file"
        )
    dtype = np.dtype(DTYPES[kind]).newbyteorder("<")
    if 9 in message:
        flat = np.frombuffer(message[9][-1], dtype)
    elif kind == 1:
        flat = np.frombuffer(b"".join(message.get(4, [])), dtype)
    elif dtype.kind in "iub" and dtype != np.uint64:
        flat = np.array(integers(message.get(7 if kind == 7 else 5, [])), dtype)
    else:
        raise NotImplementedError(f"tensor {text(message, 8)!r}: {dtype} without raw data")
    return text(message, 8), flat.reshape(shape).astype(dtype.newbyteorder("="))


def attribute(data):
    """(name, value) of an AttributeProto."""
    message = fields(data)
    contents = {
        1: lambda: struct.unpack("<f", message[2][-1])[0],
        2: lambda: message[3][-1],
        3: lambda: text(message, 4),
        4: lambda: tensor(message[5][-1])[1],
        6: lambda: list(struct.unpack(f"<{len(b''.join(message[7])) // 4}f", b"".join(message[7]))),
        7: lambda: integers(message.get(8, [])),
    }
    kind = message.get(20, [0])[-1]
    if kind not in contents:
        raise NotImplementedError(f"attribute {text(message, 1)!r} is of kind {kind}")
    return text(message, 1), contents[kind]()


# Operators ------------------------------------------------------------------------------------------


def divided(a, b):
    """A quotient of floating-point numbers; those of integers are cut off in ONNX."""
    if not jnp.issubdtype(jnp.result_type(a, b), jnp.floating):
        raise NotImplementedError("Div of integers")
    return a / b


def gemm(a, b, c=0.0, alpha=1.0, beta=1.0, transA=0, transB=0):
    """A scaled product of matrices, and a scaled addend."""
    return alpha * ((a.T if transA else a) @ (b.T if transB else b)) + beta * c


def windows(kernel_shape, pads, strides, dilations=None, auto_pad="NOTSET", ceil_mode=0, **others):
    """Padding (pairs), strides and dilations of what moves over images."""
    if auto_pad not in ("NOTSET", "VALID") or ceil_mode or others:
        raise NotImplementedError(f"auto_pad={auto_pad}, ceil_mode={ceil_mode}, {others}")
    n = len(kernel_shape)
    pads = pads or [0] * (2 * n)
    pairs = list(zip(pads[:n], pads[n:], strict=True))
    return pairs, strides or [1] * n, dilations or [1] * n


def conv(x, w, b=None, group=1, kernel_shape=None, pads=None, strides=None, **others):
    """A convolution of `x` [batch, channels, ...] by `w` [features, channels of a group, ...]."""
    pairs, strides, dilations = windows(w.shape[2:], pads, strides, **others)
    y = lax.conv_general_dilated(x, w, strides, pairs, rhs_dilation=dilations, feature_group_count=group)  # fmt: skip
    return y if b is None else y + b.reshape(-1, *[1] * (y.ndim - 2))


def max_pool(x, kernel_shape, pads=None, strides=None, storage_order=0, **others):
    """The greatest element of each window."""
    pairs, strides, dilations = windows(kernel_shape, pads, strides, **others)
    pairs, ones = [(0, 0), (0, 0), *pairs], (1, 1)
    sizes = (*ones, *kernel_shape), (*ones, *strides), pairs
    return lax.reduce_window(x, -jnp.inf, lax.max, *sizes, window_dilation=(*ones, *dilations))


def average_pool(x, kernel_shape, pads=None, strides=None, count_include_pad=0, **others):
    """The mean of each window; elements beyond the image count if `count_include_pad`."""
    pairs, strides, dilations = windows(kernel_shape, pads, strides, **others)
    pairs, ones = [(0, 0), (0, 0), *pairs], (1, 1)
    sizes = (*ones, *kernel_shape), (*ones, *strides), pairs
    total = lambda x: lax.reduce_window(
        x, 0.0, lax.add, *sizes, window_dilation=(*ones, *dilations)
    )
    return total(x) / (np.prod(kernel_shape) if count_include_pad else total(jnp.ones_like(x)))


def batch_normalization(x, scale, b, mean, var, epsilon=1e-5, momentum=0.9, training_mode=0):
    """`x` [batch, channels, ...] by known means and variances of the channels."""
    if training_mode:
        raise NotImplementedError("BatchNormalization in training mode")
    scale, b, mean, var = [v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, b, mean, var)]
    return (x - mean) * scale * lax.rsqrt(var + epsilon) + b


def reshape(x, shape, allowzero=0):
    """`x` in another shape, in which 0 is the size that it has."""
    sizes = [int(n) if n or allowzero else x.shape[i] for i, n in enumerate(np.asarray(shape))]
    return x.reshape(sizes)


def flatten(x, axis=1):
    """A matrix: dimensions before `axis`, and those from there on."""
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


OPERATORS = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": divided,
    "MatMul": lambda a, b: a @ b,
    "Gemm": gemm,
    "Relu": nn.relu,
    "LeakyRelu": lambda x, alpha=0.01: nn.leaky_relu(x, alpha),
    "Sigmoid": nn.sigmoid,
    "Tanh": jnp.tanh,
    "Sqrt": jnp.sqrt,
    "Erf": lax.erf,
    "Softmax": lambda x, axis=-1: nn.softmax(x, axis),
    "Conv": conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda x: jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True),
    "BatchNormalization": batch_normalization,
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": lambda x, perm=None: jnp.transpose(x, perm),
    "Concat": lambda *xs, axis: jnp.concatenate(xs, axis),
    "Identity": lambda x: x,
    "Constant": lambda value: value,
}

# Graphs ---------------------------------------------------------------------------------------------


def read(path):
    """(the function of a file, its parameters by name): `function(params, *inputs)` gives a list of results.

    Parameters are the constants of floating point; those of integers, such as shapes, are part of the function.
    """
    model = fields(Path(path).read_bytes())
    if 7 not in model:
        raise ValueError(f"{path} holds no graph: it is no ONNX file")
    for opset in map(fields, model.get(8, [])):
        version = opset.get(2, [1])[-1]
        if text(opset, 1) in ("", "ai.onnx") and version < OLDEST_OPERATORS:
            raise NotImplementedError(
                f"operators of version {version}; convert the file to {OLDEST_OPERATORS}"
            )
    graph = fields(model[7][-1])
    constants = dict(map(tensor, graph.get(5, [])))
    params = {name: x for name, x in constants.items() if x.dtype.kind == "f"}
    nodes = []
    for node in map(fields, graph.get(1, [])):
        kind = text(node, 4)
        if kind not in OPERATORS or text(node, 7) not in ("", "ai.onnx") or len(node[2]) > 1:
            raise NotImplementedError(
                f"there is no operator {kind} with {len(node[2])} results here: {sorted(OPERATORS)}"
            )
        operands = [name.decode() for name in node.get(1, [])]
        while operands and not operands[-1]:  # left out
            operands.pop()
        if "" in operands:
            raise NotImplementedError(f"{kind} without an operand in the middle")
        nodes.append((kind, operands, node[2][0].decode(), dict(map(attribute, node.get(5, [])))))
    names = [text(fields(value), 1) for value in graph.get(11, [])]
    inputs = [name for name in names if name not in constants]
    outputs = [text(fields(value), 1) for value in graph[12]]

    def function(params, *arguments):
        if len(arguments) != len(inputs):
            raise TypeError(
                f"the network takes {', '.join(inputs)}, and got {len(arguments)} arrays"
            )
        values = {
            **constants,
            **params,
            **dict(zip(inputs, map(jnp.asarray, arguments), strict=True)),
        }
        for kind, operands, result, attributes in nodes:
            values[result] = OPERATORS[kind](*[values[name] for name in operands], **attributes)
        return [values[name] for name in outputs]

    return function, params
