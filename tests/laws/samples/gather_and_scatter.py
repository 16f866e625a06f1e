"""Rows for gather and for all scatters, over the same geometries."""

from tests.laws.sample import Sample, array, values

X = (5, 4, 3)
INSIDE, OUTSIDE = 0, 1

# name: (dimension numbers, slice sizes, shape of the windows' array, indices inside, indices partly outside)
GEOMETRIES = {
    "rows": ("(1, 2), (0,), (0,)", "(1, 4, 3)", (2, 4, 3), [[0], [3]], [[-1], [7]]),
    "columns": ("(0, 3), (1,), (1,)", "(5, 1, 2)", (5, 2, 3, 2), [[[0], [1], [3]], [[2], [2], [0]]],
                [[[-1], [1], [3]], [[4], [2], [0]]]),
    "elements": ("(1,), (0, 1), (1, 0)", "(1, 1, 3)", (3, 3), [[0, 0], [3, 4], [1, 2]], [[0, 0], [3, 5], [-1, 2]]),
    "windows": ("(1, 2, 3), (), (2, 0)", "(2, 4, 2)", (2, 2, 4, 2), [[0, 0], [1, 2]], [[0, 4], [1, -1]]),
    "one": ("(0, 1), (0,), (0,)", "(1, 4, 3)", (4, 3), [2], [6]),
    "batches": ("(2,), (1,), (1,), (0,), (0,)", "(1, 1, 3)", (5, 2, 3),
                [[[i % 4], [(i + 1) % 4]] for i in range(5)], [[[i], [i - 2]] for i in range(5)]),
    "other_batches": ("(2,), (0,), (0,), (1,), (1,)", "(1, 1, 2)", (2, 4, 2),
                      [[[i], [i + 1], [0], [4]] for i in range(2)], [[[i], [-1], [0], [5]] for i in range(2)]),
    "everything": ("(1, 2, 3), (), ()", "(5, 4, 3)", (2, 5, 4, 3), [[], []], [[], []]),
}  # fmt: skip
MODES = {"None": INSIDE, "'promise_in_bounds'": INSIDE, "'clip'": OUTSIDE, "'fill'": OUTSIDE}
UNIQUE = ("rows", "elements", "one")
DTYPES = ("bfloat16", "int32", "uint8", "complex64", "float64")


def indices(name: str, where: int, dtype: str = "int32"):
    return values(GEOMETRIES[name][3 + where], dtype)


def gathers():
    for name, (numbers, sizes, *_) in GEOMETRIES.items():
        for mode, where in MODES.items():
            fill = ", fill_value=2.5" if mode == "'fill'" else ""
            call = f"lax.gather(x, y, lax.GatherDimensionNumbers({numbers}), {sizes}, mode={mode}{fill})"
            yield Sample(call, (array(X), indices(name, where)))
    rows = (
        "lax.gather(x, y, lax.GatherDimensionNumbers((1, 2), (0,), (0,)), (1, 4, 3), mode='fill'{})"
    )
    for dtype in (*DTYPES, "bool", "int8"):
        yield Sample(rows.format(""), (array(X, dtype), indices("rows", OUTSIDE)), smooth=False)
    for dtype in ("int8", "int64"):
        yield Sample(rows.format(""), (array(X), indices("rows", OUTSIDE, dtype)), smooth=False)
    for dtype in ("uint8", "uint32"):
        yield Sample(rows.format(""), (array(X), values([[0], [7]], dtype)), smooth=False)
    yield Sample(
        rows.format(", fill_value=np.nan, indices_are_sorted=True"),
        (array(X), indices("rows", OUTSIDE)),
        smooth=False,
    )
    yield Sample(
        rows.format(", fill_value=1, unique_indices=True"), (array(X), indices("rows", OUTSIDE))
    )
    # The reference can't lower this mode everywhere; its meaning is that of a product.
    yield Sample(
        "lax.gather(x, y, lax.GatherDimensionNumbers((1, 2), (0,), (0,)), (1, 4, 3), mode='one_hot')",
        (array(X), indices("rows", OUTSIDE)), agrees="no",
    )  # fmt: skip


def scatters():
    for operation in (
        "scatter",
        "scatter_add",
        "scatter_sub",
        "scatter_mul",
        "scatter_min",
        "scatter_max",
    ):
        for name, (numbers, _, updates, *_) in GEOMETRIES.items():
            for mode, where in MODES.items():
                yield from scatter(operation, name, numbers, updates, mode, where)
        for dtype in DTYPES:
            if (operation, dtype) not in (
                ("scatter_min", "complex64"),
                ("scatter_max", "complex64"),
            ):
                yield from scatter(
                    operation,
                    "rows",
                    GEOMETRIES["rows"][0],
                    GEOMETRIES["rows"][2],
                    "None",
                    INSIDE,
                    dtype,
                )
    yield from scatter(
        "scatter", "rows", GEOMETRIES["rows"][0], GEOMETRIES["rows"][2], "None", INSIDE, "bool"
    )


def scatter(operation, name, numbers, updates, mode, where, dtype="float32"):
    clashes = mode == "'clip'" and name in ("columns", "windows", "other_batches", "batches")
    unique = name in UNIQUE
    if operation == "scatter" and (clashes or name == "everything"):
        return  # which of several updates remains is up to the platform
    options = f", unique_indices={unique}" if unique else ""
    call = f"lax.{operation}(x, y, z, lax.ScatterDimensionNumbers({numbers}), mode={mode}{options})"
    yield Sample(
        call,
        (array(X, dtype), indices(name, where), array(updates, dtype)),
        wrt=(0,) if operation == "scatter_mul" and not unique else None,
        agrees="no"
        if operation in ("scatter_min", "scatter_max") and mode == "'clip'"
        else "close",
    )


def applications():
    for name in ("rows", "one", "elements"):
        numbers, _, updates, *_ = GEOMETRIES[name]
        yield Sample(
            f"lax.scatter_apply(x, y, lambda e: lax.mul(e, e), lax.ScatterDimensionNumbers({numbers}), "
            f"update_shape={updates}, unique_indices=True)",
            (array(X), indices(name, INSIDE)), agrees="no",
        )  # fmt: skip
    yield Sample(
        "lax.scatter_apply(x, y, lambda e: lax.add(e, e), lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(3,))",
        (array((4,)), values([[1], [1], [3]], "int32")), wrt=(), same_text=False,
    )  # fmt: skip


samples = [*gathers(), *scatters(), *applications()]
