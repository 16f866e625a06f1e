"""Synthetic programs: what a multilayer perceptron, a transformer, nested control flow look like."""

from __future__ import annotations

from collections.abc import Sequence

from tests.introspect.program_builder import Body, ProgramBuilder, schema

MLP_CELL = """\
def dense(layer, x):
    return x @ layer["w"] + layer["b"]

def model(params, x):
    hidden = jnp.tanh(dense(params[0], x))
    logits = dense(params[1], hidden)
    return logits

def loss(params, x, y):
    logits = model(params, x)
    shifted = logits - jnp.max(logits, axis=-1, keepdims=True)
    total = jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))
    picked = jnp.sum((shifted - total) * y, axis=-1)
    return -jnp.mean(picked)
"""


def mlp(key: str = "mlp", *, hidden: int = 128, with_dropout: bool = False) -> ProgramBuilder:
    """Loss of a two-layer perceptron, 20-odd equations with spans, scopes and user names."""
    b = ProgramBuilder(key, "loss")
    cell = b.source("In[3]", MLP_CELL, cell_id="a4f1")
    run = b.source("In[4]", "pl.make_jaxpr(loss)(params, x, y)\n", cell_id="b7e2")
    entry = b.span(run, "pl.make_jaxpr(loss)(params, x, y)", "<module>")
    call = b.span(cell, "model(params, x)", "loss", entry)
    w1 = b.input("f32", (784, hidden), "params[0]['w']")
    b1 = b.input("f32", (hidden,), "params[0]['b']")
    w2 = b.input("f32", (hidden, 10), "params[1]['w']")
    b2 = b.input("f32", (10,), "params[1]['b']")
    x = b.input("f32", (32, 784), "x")
    y = b.input("f32", (32, 10), "y")

    def dense(
        x: int, w: int, bias: int, sizes: tuple[int, int, int], caller: int, scope: int
    ) -> int:
        rows, inner, columns = sizes
        at = {"scope": scope}
        h = b.equation(
            "dot_general",
            [x, w],
            shape=(rows, columns),
            params={"dimension_numbers": "(([1], [0]), ([], []))", "preferred_element_type": "f32"},
            span=b.span(cell, 'x @ layer["w"]', "dense", caller),
            flops=2 * rows * inner * columns,
            **at,
        )
        wide = b.equation(
            "broadcast_in_dim",
            [bias],
            shape=(rows, columns),
            params={"shape": f"({rows}, {columns})", "broadcast_dimensions": "(1,)"},
            span=b.span(cell, 'x @ layer["w"] + layer["b"]', "dense", caller),
            flops=0,
            **at,
        )
        return b.equation(
            "add",
            [h, wide],
            shape=(rows, columns),
            span=b.span(cell, 'x @ layer["w"] + layer["b"]', "dense", caller),
            flops=rows * columns,
            **at,
        )

    first = b.span(cell, "dense(params[0], x)", "model", call)
    h = dense(x, w1, b1, (32, 784, hidden), first, b.scope("model", "dense_0"))
    h = b.equation(
        "tanh",
        [h],
        shape=(32, hidden),
        user="hidden",
        scope=b.scope("model"),
        span=b.span(cell, "jnp.tanh(dense(params[0], x))", "model", call),
        flops=32 * hidden,
    )
    if with_dropout:
        seed = b.input("u32", (2,), "key")
        bits = b.equation(
            "random_bits",
            [seed],
            "u32",
            (32, hidden),
            params={"bit_width": "32"},
            flops=70 * 32 * hidden,
        )
        keep = b.equation(
            "lt", [bits, b.literal("3435973836", "u32")], "bool", (32, hidden), user="keep"
        )
        scaled = b.equation("mul", [h, b.literal("1.25")], shape=(32, hidden))
        zero = b.equation(
            "broadcast_in_dim",
            [b.literal("0.0")],
            shape=(32, hidden),
            params={"shape": f"(32, {hidden})"},
        )
        h = b.equation("select_n", [keep, zero, scaled], shape=(32, hidden), user="hidden")
    second = b.span(cell, "dense(params[1], hidden)", "model", call)
    logits = dense(h, w2, b2, (32, hidden, 10), second, b.scope("model", "dense_1"))
    b.value_users[logits] = b.string("logits")

    in_loss = b.scope("loss")
    top_span = b.span(cell, "jnp.max(logits, axis=-1, keepdims=True)", "loss", entry)
    top = b.equation(
        "reduce_max",
        [logits],
        shape=(32,),
        params={"axes": "(1,)"},
        scope=in_loss,
        span=top_span,
        flops=320,
    )
    top = b.equation(
        "broadcast_in_dim",
        [top],
        shape=(32, 1),
        params={"shape": "(32, 1)"},
        scope=in_loss,
        span=top_span,
        flops=0,
    )
    shifted = b.equation(
        "sub",
        [logits, top],
        shape=(32, 10),
        user="shifted",
        scope=in_loss,
        span=b.span(cell, "logits - jnp.max(logits, axis=-1, keepdims=True)", "loss", entry),
        flops=320,
    )
    e = b.equation(
        "exp",
        [shifted],
        shape=(32, 10),
        scope=in_loss,
        span=b.span(cell, "jnp.exp(shifted)", "loss", entry),
        flops=320,
    )
    total_span = b.span(cell, "jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True)", "loss", entry)
    s = b.equation(
        "reduce_sum",
        [e],
        shape=(32,),
        params={"axes": "(1,)"},
        scope=in_loss,
        span=total_span,
        flops=320,
    )
    s = b.equation(
        "broadcast_in_dim",
        [s],
        shape=(32, 1),
        params={"shape": "(32, 1)"},
        scope=in_loss,
        span=total_span,
        flops=0,
    )
    total = b.equation(
        "log",
        [s],
        shape=(32, 1),
        user="total",
        scope=in_loss,
        span=b.span(
            cell, "jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))", "loss", entry
        ),
        flops=32,
    )
    logp = b.equation(
        "sub",
        [shifted, total],
        shape=(32, 10),
        scope=in_loss,
        span=b.span(cell, "shifted - total", "loss", entry),
        flops=320,
    )
    weighted = b.equation(
        "mul",
        [logp, y],
        shape=(32, 10),
        scope=in_loss,
        span=b.span(cell, "(shifted - total) * y", "loss", entry),
        flops=320,
    )
    picked = b.equation(
        "reduce_sum",
        [weighted],
        shape=(32,),
        params={"axes": "(1,)"},
        user="picked",
        scope=in_loss,
        span=b.span(cell, "jnp.sum((shifted - total) * y, axis=-1)", "loss", entry),
        flops=320,
    )
    mean_span = b.span(cell, "jnp.mean(picked)", "loss", entry)
    mean = b.equation(
        "reduce_sum", [picked], params={"axes": "(0,)"}, scope=in_loss, span=mean_span, flops=32
    )
    mean = b.equation("div", [mean, b.literal("32.0")], scope=in_loss, span=mean_span, flops=1)
    out = b.equation(
        "neg", [mean], scope=in_loss, span=b.span(cell, "-jnp.mean(picked)", "loss", entry), flops=1
    )
    b.main.outputs.append(out)
    return b


TRANSFORMER_FILE = """\
def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = jnp.mean(centred ** 2, axis=-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-6) * scale + bias

def attention(p, x):
    q = split_heads(x @ p.wq)
    k = split_heads(x @ p.wk)
    v = split_heads(x @ p.wv)
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
    weights = jax.nn.softmax(scores)
    return merge_heads(weights @ v) @ p.wo

def feed_forward(p, x):
    hidden = jax.nn.gelu(x @ p.w1 + p.b1)
    return hidden @ p.w2 + p.b2

def layer(p, x):
    x = x + attention(p.attention, layer_norm(x, p.scale1, p.bias1))
    return x + feed_forward(p.feed_forward, layer_norm(x, p.scale2, p.bias2))

def transformer(params, tokens):
    x = params.embedding[tokens]
    for p in params.layers:
        x = layer(p, x)
    return x @ params.head
"""

BATCH, LENGTH, WIDTH, HEADS, INNER, VOCABULARY = 8, 128, 512, 8, 2048, 32000


class TransformerWriter:
    """Writes the equations of a transformer into a builder, layer after layer."""

    def __init__(self, builder: ProgramBuilder, *, scoped: bool) -> None:
        self.b = builder
        self.scoped = scoped
        self.file = builder.source("model.py", TRANSFORMER_FILE, path="/home/user/project/model.py")
        self.path: tuple[str, ...] = ()
        self.body: Body | None = None
        self.frames: list[tuple[str, int]] = [("transformer", -1)]

    def op(
        self,
        primitive: str,
        operands: Sequence[int],
        shape: Sequence[int],
        at: str,
        /,
        *,
        user: str = "",
        dtype: str = "f32",
        flops: float | None = None,
        **params: str,
    ) -> int:
        function, caller = self.frames[-1]
        size = 1
        for dim in shape:
            size *= dim
        return self.b.equation(
            primitive,
            operands,
            dtype,
            shape,
            user=user,
            params=params,
            scope=self.b.scope(*self.path) if self.scoped else -1,
            span=self.b.span(self.file, at, function, caller),
            flops=size if flops is None else flops,
            body=self.body,
        )

    def enter(self, function: str, at: str, *scope: str) -> None:
        outer, caller = self.frames[-1]
        self.frames.append((function, self.b.span(self.file, at, outer, caller)))
        self.path = (*self.path, *scope)

    def leave(self, scopes: int = 1) -> None:
        self.frames.pop()
        self.path = self.path[: len(self.path) - scopes]

    def dot(self, x: int, w: int, shape: Sequence[int], inner: int, at: str, user: str = "") -> int:
        size = 1
        for dim in shape:
            size *= dim
        return self.op(
            "dot_general",
            [x, w],
            shape,
            at,
            user=user,
            flops=2 * size * inner,
            dimension_numbers=f"(([{len(shape) - 1}], [0]), ([], []))",
            preferred_element_type="f32",
        )

    def layer_norm(self, x: int, scale: int, bias: int, at: str, name: str) -> int:
        self.enter("layer_norm", at, name)
        rows, full = (BATCH, LENGTH), (BATCH, LENGTH, WIDTH)
        column = (*rows, 1)

        def mean(x: int, at: str, user: str) -> int:
            s = self.op("reduce_sum", [x], rows, at, axes="(2,)")
            s = self.op(
                "broadcast_in_dim",
                [s],
                column,
                at,
                shape=str(column),
                broadcast_dimensions="(0, 1)",
            )
            return self.op("div", [s, self.b.literal("512.0")], column, at, user=user)

        m = mean(x, "jnp.mean(x, axis=-1, keepdims=True)", "mean")
        c = self.op("sub", [x, m], full, "x - mean", user="centred")
        squared = self.op("integer_pow", [c], full, "centred ** 2", y="2")
        v = mean(squared, "jnp.mean(centred ** 2, axis=-1, keepdims=True)", "variance")
        v = self.op("add", [v, self.b.literal("1e-06")], column, "variance + 1e-6")
        r = self.op("rsqrt", [v], column, "lax.rsqrt(variance + 1e-6)")
        n = self.op("mul", [c, r], full, "centred * lax.rsqrt(variance + 1e-6)")
        line = "centred * lax.rsqrt(variance + 1e-6) * scale + bias"
        s = self.op(
            "broadcast_in_dim", [scale], full, line, shape=str(full), broadcast_dimensions="(2,)"
        )
        n = self.op("mul", [n, s], full, "centred * lax.rsqrt(variance + 1e-6) * scale")
        t = self.op(
            "broadcast_in_dim", [bias], full, line, shape=str(full), broadcast_dimensions="(2,)"
        )
        n = self.op("add", [n, t], full, line)
        self.leave()
        return n

    def attention(self, x: int, weights: dict[str, int]) -> int:
        self.enter(
            "attention", "attention(p.attention, layer_norm(x, p.scale1, p.bias1))", "attention"
        )
        full, split = (BATCH, LENGTH, WIDTH), (BATCH, HEADS, LENGTH, WIDTH // HEADS)
        heads = {}
        for name in "qkv":
            at = f"split_heads(x @ p.w{name})"
            h = self.dot(x, weights[f"w{name}"], full, WIDTH, f"x @ p.w{name}")
            h = self.op(
                "reshape",
                [h],
                (BATCH, LENGTH, HEADS, WIDTH // HEADS),
                at,
                new_sizes=f"({BATCH}, {LENGTH}, {HEADS}, {WIDTH // HEADS})",
            )
            heads[name] = self.op(
                "transpose", [h], split, at, user=name, permutation="(0, 2, 1, 3)"
            )
        square = (BATCH, HEADS, LENGTH, LENGTH)
        at = "q @ k.swapaxes(-1, -2)"
        kt = self.op(
            "transpose",
            [heads["k"]],
            (BATCH, HEADS, WIDTH // HEADS, LENGTH),
            "k.swapaxes(-1, -2)",
            permutation="(0, 1, 3, 2)",
        )
        s = self.dot(heads["q"], kt, square, WIDTH // HEADS, at)
        s = self.op(
            "div",
            [s, self.b.literal("8.0")],
            square,
            "q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])",
            user="scores",
        )
        at, row = "jax.nn.softmax(scores)", (BATCH, HEADS, LENGTH)
        self.path = (*self.path, "softmax")
        top = self.op("reduce_max", [s], row, at, axes="(3,)")
        top = self.op("broadcast_in_dim", [top], (*row, 1), at, shape=str((*row, 1)))
        top = self.op("stop_gradient", [top], (*row, 1), at)
        e = self.op("exp", [self.op("sub", [s, top], square, at)], square, at)
        total = self.op("reduce_sum", [e], row, at, axes="(3,)")
        total = self.op("broadcast_in_dim", [total], (*row, 1), at, shape=str((*row, 1)))
        p = self.op("div", [e, total], square, at, user="weights")
        self.path = self.path[:-1]
        o = self.dot(p, heads["v"], split, LENGTH, "weights @ v")
        o = self.op(
            "transpose",
            [o],
            (BATCH, LENGTH, HEADS, WIDTH // HEADS),
            "merge_heads(weights @ v)",
            permutation="(0, 2, 1, 3)",
        )
        o = self.op("reshape", [o], full, "merge_heads(weights @ v)", new_sizes=str(full))
        o = self.dot(o, weights["wo"], full, WIDTH, "merge_heads(weights @ v) @ p.wo")
        self.leave()
        return o

    def feed_forward(self, x: int, weights: dict[str, int]) -> int:
        self.enter(
            "feed_forward",
            "feed_forward(p.feed_forward, layer_norm(x, p.scale2, p.bias2))",
            "feed_forward",
        )
        wide, full = (BATCH, LENGTH, INNER), (BATCH, LENGTH, WIDTH)
        h = self.dot(x, weights["w1"], wide, WIDTH, "x @ p.w1")
        t = self.op("broadcast_in_dim", [weights["b1"]], wide, "x @ p.w1 + p.b1", shape=str(wide))
        h = self.op("add", [h, t], wide, "x @ p.w1 + p.b1")
        at = "jax.nn.gelu(x @ p.w1 + p.b1)"
        self.path = (*self.path, "gelu")
        cube = self.op("integer_pow", [h], wide, at, y="3")
        inner = self.op("mul", [self.b.literal("0.044715"), cube], wide, at)
        inner = self.op("add", [h, inner], wide, at)
        inner = self.op("mul", [self.b.literal("0.797884583"), inner], wide, at)
        inner = self.op("tanh", [inner], wide, at)
        inner = self.op("add", [self.b.literal("1.0"), inner], wide, at)
        inner = self.op("mul", [self.b.literal("0.5"), inner], wide, at)
        h = self.op("mul", [h, inner], wide, at, user="hidden")
        self.path = self.path[:-1]
        o = self.dot(h, weights["w2"], full, INNER, "hidden @ p.w2")
        t = self.op(
            "broadcast_in_dim", [weights["b2"]], full, "hidden @ p.w2 + p.b2", shape=str(full)
        )
        o = self.op("add", [o, t], full, "hidden @ p.w2 + p.b2")
        self.leave()
        return o

    def layer_inputs(self, prefix: str, body: Body | None = None) -> dict[str, int]:
        shapes = {
            "scale1": (WIDTH,), "bias1": (WIDTH,), "wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH),
            "wv": (WIDTH, WIDTH), "wo": (WIDTH, WIDTH), "scale2": (WIDTH,), "bias2": (WIDTH,),
            "w1": (WIDTH, INNER), "b1": (INNER,), "w2": (INNER, WIDTH), "b2": (WIDTH,),
        }  # fmt: skip
        return {
            name: self.b.input("f32", shape, f"{prefix}.{name}", body)
            for name, shape in shapes.items()
        }

    def layer(self, x: int, weights: dict[str, int], *scope: str) -> int:
        full = (BATCH, LENGTH, WIDTH)
        self.enter("layer", "layer(p, x)", *scope)
        n = self.layer_norm(
            x, weights["scale1"], weights["bias1"], "layer_norm(x, p.scale1, p.bias1)", "norm_1"
        )
        a = self.attention(n, weights)
        x = self.op(
            "add",
            [x, a],
            full,
            "x + attention(p.attention, layer_norm(x, p.scale1, p.bias1))",
            user="x",
        )
        n = self.layer_norm(
            x, weights["scale2"], weights["bias2"], "layer_norm(x, p.scale2, p.bias2)", "norm_2"
        )
        f = self.feed_forward(n, weights)
        x = self.op(
            "add",
            [x, f],
            full,
            "x + feed_forward(p.feed_forward, layer_norm(x, p.scale2, p.bias2))",
        )
        self.leave(len(scope))
        return x


def transformer(
    key: str = "transformer", *, layers: int = 12, stages: int = 1, scoped: bool = True
) -> ProgramBuilder:
    """A transformer's forward pass: about 64 equations in each layer, grouped by scope."""
    b = ProgramBuilder(key, "transformer")
    w = TransformerWriter(b, scoped=scoped)
    table = b.input("f32", (VOCABULARY, WIDTH), "params.embedding")
    tokens = b.input("i32", (BATCH, LENGTH), "tokens")
    head = b.input("f32", (WIDTH, VOCABULARY), "params.head")
    w.path = ("embed",)
    at = "params.embedding[tokens]"
    index = w.op(
        "broadcast_in_dim",
        [tokens],
        (BATCH, LENGTH, 1),
        at,
        dtype="i32",
        shape=f"({BATCH}, {LENGTH}, 1)",
    )
    x = w.op(
        "gather",
        [table, index],
        (BATCH, LENGTH, WIDTH),
        at,
        user="x",
        mode="promise_in_bounds",
        slice_sizes=f"(1, {WIDTH})",
    )
    w.path = ()
    for stage in range(stages):
        for index in range(layers):
            weights = w.layer_inputs(f"params.layers[{stage * layers + index}]")
            scope = (f"stage_{stage}", f"layer_{index}") if stages > 1 else (f"layer_{index}",)
            x = w.layer(x, weights, *scope)
    out = w.dot(x, head, (BATCH, LENGTH, VOCABULARY), WIDTH, "x @ params.head", "logits")
    b.main.outputs.append(out)
    return b


def transformer_calls(key: str = "transformer_calls", layers: int = 12) -> ProgramBuilder:
    """The same transformer with a jitted layer: one body that twelve equations call."""
    b = ProgramBuilder(key, "transformer")
    w = TransformerWriter(b, scoped=True)
    body = b.body("layer")
    tokens = b.input("i32", (BATCH, LENGTH), "tokens")
    table = b.input("f32", (VOCABULARY, WIDTH), "params.embedding")
    at = "params.embedding[tokens]"
    x = w.op("gather", [table, tokens], (BATCH, LENGTH, WIDTH), at, user="x", mode="clip")
    inner_x = b.input("f32", (BATCH, LENGTH, WIDTH), "x", body)
    inner_weights = w.layer_inputs("p", body)
    w.body = body
    body.outputs.append(w.layer(inner_x, inner_weights))
    w.body = None
    for index in range(layers):
        weights = w.layer_inputs(f"params.layers[{index}]")
        x = b.equation(
            "jit",
            [x, *weights.values()],
            "f32",
            (BATCH, LENGTH, WIDTH),
            params={"name": "layer"},
            bodies=[("jaxpr", body, 1)],
            span=b.span(w.file, "layer(p, x)", "transformer"),
            flops=6.9e9,
        )
    b.main.outputs.append(x)
    return b


CONTROL_CELL = """\
def step(carry, x):
    h, count = carry
    h = jnp.tanh(w @ h + x)
    h = lax.cond(count % 2 == 0, lambda h: h * 0.5, lambda h: jnp.sin(h), h)
    return (h, count + 1), h.sum()

def rollout(w, h, xs):
    (h, count), sums = lax.scan(step, (h, 0), xs)
    h = lax.while_loop(lambda h: jnp.abs(h).max() > 1e-3, lambda h: h * 0.9, h)
    return jax.checkpoint(jnp.sin)(h), sums
"""


def control_flow(key: str = "control_flow") -> ProgramBuilder:
    """scan around cond, then while, then remat: calls of every shape."""
    b = ProgramBuilder(key, "rollout")
    cell = b.source("In[7]", CONTROL_CELL, cell_id="c001")
    w = b.input("f32", (64, 64), "w")
    h0 = b.input("f32", (64,), "h")
    xs = b.input("f32", (100, 64), "xs")

    halve = b.body("<lambda>")
    h = b.input("f32", (64,), "h", halve)
    halve.outputs.append(
        b.equation(
            "mul",
            [h, b.literal("0.5")],
            shape=(64,),
            body=halve,
            flops=64,
            span=b.span(cell, "h * 0.5", "<lambda>"),
        )
    )
    sine = b.body("<lambda>")
    h = b.input("f32", (64,), "h", sine)
    sine.outputs.append(
        b.equation(
            "sin",
            [h],
            shape=(64,),
            body=sine,
            flops=64,
            span=b.span(cell, "jnp.sin(h)", "<lambda>"),
        )
    )

    step = b.body("step")
    inner_w = b.input("f32", (64, 64), "w", step)
    h = b.input("f32", (64,), "h", step)
    count = b.input("i32", (), "count", step)
    x = b.input("f32", (64,), "x", step)
    at = {"body": step}
    h = b.equation(
        "dot_general",
        [inner_w, h],
        shape=(64,),
        params={"dimension_numbers": "(([1], [0]), ([], []))"},
        flops=8192,
        span=b.span(cell, "w @ h", "step"),
        **at,
    )
    h = b.equation(
        "add", [h, x], shape=(64,), flops=64, span=b.span(cell, "w @ h + x", "step"), **at
    )
    h = b.equation(
        "tanh",
        [h],
        shape=(64,),
        user="h",
        flops=64,
        span=b.span(cell, "jnp.tanh(w @ h + x)", "step"),
        **at,
    )
    m = b.equation(
        "rem",
        [count, b.literal("2", "i32")],
        "i32",
        span=b.span(cell, "count % 2", "step"),
        flops=1,
        **at,
    )
    e = b.equation(
        "eq",
        [m, b.literal("0", "i32")],
        "bool",
        span=b.span(cell, "count % 2 == 0", "step"),
        flops=1,
        **at,
    )
    i = b.equation(
        "convert_element_type",
        [e],
        "i32",
        params={"new_dtype": "int32"},
        span=b.span(cell, "count % 2 == 0", "step"),
        **at,
    )
    h = b.equation(
        "cond", [i, h], shape=(64,), user="h",
        bodies=[("branches[0]", sine, None), ("branches[1]", halve, None)],
        span=b.span(cell, "lax.cond(count % 2 == 0, lambda h: h * 0.5, lambda h: jnp.sin(h), h)", "step"), flops=64, **at,
    )  # fmt: skip
    n = b.equation(
        "add",
        [count, b.literal("1", "i32")],
        "i32",
        span=b.span(cell, "count + 1", "step"),
        flops=1,
        **at,
    )
    s = b.equation(
        "reduce_sum",
        [h],
        params={"axes": "(0,)"},
        span=b.span(cell, "h.sum()", "step"),
        flops=64,
        **at,
    )
    step.outputs.extend([h, n, s])

    results = [
        b.value("f32", (64,), "h"),
        b.value("i32", (), "count"),
        b.value("f32", (100,), "sums"),
    ]
    b.equation(
        "scan", [w, h0, b.literal("0", "i32"), xs], results=results,
        params={"length": "100", "num_consts": "1", "num_carry": "2", "reverse": "False", "unroll": "1"},
        bodies=[("jaxpr", step, 100)], span=b.span(cell, "lax.scan(step, (h, 0), xs)", "rollout"), flops=850000,
    )  # fmt: skip

    test = b.body("<lambda>")
    h = b.input("f32", (64,), "h", test)
    a = b.equation(
        "abs", [h], shape=(64,), body=test, flops=64, span=b.span(cell, "jnp.abs(h)", "<lambda>")
    )
    a = b.equation(
        "reduce_max",
        [a],
        params={"axes": "(0,)"},
        body=test,
        flops=64,
        span=b.span(cell, "jnp.abs(h).max()", "<lambda>"),
    )
    test.outputs.append(
        b.equation(
            "gt",
            [a, b.literal("0.001")],
            "bool",
            body=test,
            flops=1,
            span=b.span(cell, "jnp.abs(h).max() > 1e-3", "<lambda>"),
        )
    )
    shrink = b.body("<lambda>")
    h = b.input("f32", (64,), "h", shrink)
    shrink.outputs.append(
        b.equation(
            "mul",
            [h, b.literal("0.9")],
            shape=(64,),
            body=shrink,
            flops=64,
            span=b.span(cell, "h * 0.9", "<lambda>"),
        )
    )
    h = b.equation(
        "while", [results[0]], shape=(64,), user="h",
        bodies=[("cond_jaxpr", test, None), ("body_jaxpr", shrink, None)],
        span=b.span(cell, "lax.while_loop(lambda h: jnp.abs(h).max() > 1e-3, lambda h: h * 0.9, h)", "rollout"),
    )  # fmt: skip
    remat = b.body("sin")
    v = b.input("f32", (64,), "x", remat)
    remat.outputs.append(b.equation("sin", [v], shape=(64,), body=remat, flops=64))
    h = b.equation(
        "checkpoint",
        [h],
        shape=(64,),
        bodies=[("jaxpr", remat, 1)],
        params={"prevent_cse": "True", "policy": "None"},
        span=b.span(cell, "jax.checkpoint(jnp.sin)(h)", "rollout"),
        flops=64,
    )
    b.main.outputs.extend([h, results[2]])
    return b


HOSTILE = [
    "<script>window.__hostile = 1</script>",
    "<img src=x onerror='window.__hostile = 1'>",
    "</script><script>window.__hostile = 1</script>",
    "<!--",
    "]]>",
    '"><svg onload=window.__hostile=1>',
    "{{constructor.constructor('window.__hostile = 1')()}}",
    "javascript:window.__hostile=1",
    "\u202egnirts desrever\u202c",
    "a" * 5000,
    "\u0000\u0007\u2028\u2029",
    "𝕳 ﷽ 👩‍👩‍👧‍👦",
    "__proto__",
    "constructor",
]


def hostile() -> ProgramBuilder:
    """Every text of the record is hostile: names, params, scopes, sources, types."""
    b = ProgramBuilder(HOSTILE[0], HOSTILE[2])
    source = b.source(HOSTILE[1], "\n".join(HOSTILE))
    x = b.input("f32", (2,), HOSTILE[1])
    for text in HOSTILE:
        x = b.equation(
            text,
            [x, b.literal(text)],
            shape=(2,),
            user=text,
            params={text: text},
            scope=b.scope(text, text),
            span=b.span(source, text.split("\n")[0], text) if text else -1,
            effects=text,
            transformation=text,
        )
    b.main.outputs.append(x)
    return b


def empty() -> ProgramBuilder:
    """A program without equations: its input is its output."""
    b = ProgramBuilder("empty", "identity")
    x = b.input("f32", (3,), "x")
    b.main.outputs.append(x)
    return b


def nothing() -> ProgramBuilder:
    """A program without inputs, equations and outputs."""
    return ProgramBuilder("nothing", "nothing")


def wide(count: int = 5000) -> ProgramBuilder:
    """Many equations in one level with random-looking operands: nothing to fold or to group."""
    b = ProgramBuilder("wide", "wide")
    values = [b.input("f32", (64, 64), f"x{i}") for i in range(8)]
    names = [
        "add",
        "mul",
        "sub",
        "tanh",
        "exp",
        "dot_general",
        "reduce_sum",
        "transpose",
        "select_n",
    ]
    state = 12345
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        first = values[-1 - (state >> 8) % min(12, len(values))]
        second = values[-1 - (state >> 16) % min(40, len(values))]
        values.append(
            b.equation(
                names[(state >> 4) % len(names)], [first, second], shape=(64, 64), flops=4096
            )
        )
    b.main.outputs.append(values[-1])
    return b


__all__ = [
    "control_flow",
    "empty",
    "hostile",
    "mlp",
    "nothing",
    "schema",
    "transformer",
    "transformer_calls",
    "wide",
]
