"""Rotations agree with SciPy's in all descriptions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import transform as theirs

import pellucid as pl
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, ShapeError
from pellucid.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUATERNIONS = np.vstack([RNG.normal(size=(4, 4)), np.eye(4)[[0, 3]], -np.eye(4)[[3]]])
VECTORS = np.vstack([RNG.normal(size=(5, 3)), np.zeros((1, 3)), np.full((1, 3), 1e-7)])

ROWS = [
    "R.from_quat(q).as_quat(True)", "R.from_quat(q).as_matrix()", "R.from_quat(q).as_rotvec(True)",
    "R.from_quat(q).as_mrp()", "R.from_quat(q).magnitude()", "R.from_quat(q).inv().as_matrix()",
    "R.from_matrix(R.from_quat(q).as_matrix()).as_quat(True)", "R.from_rotvec(v).as_quat(True)",
    "R.from_mrp(v).as_quat(True)", "(R.from_quat(q) * R.from_rotvec(v)).as_matrix()", "R.from_quat(q).apply(v)",
    "R.from_quat(q)[0].apply(v, inverse=True)", "R.from_quat(q[:3]).mean([1.0, 2.0, 3.0]).as_matrix()",
    "R.concatenate([R.from_quat(q), R.identity(2)]).as_matrix()", "R.from_euler('x', 30, degrees=True).as_matrix()",
    *(f"R.from_euler({s!r}, v[:5]).as_matrix()" for s in ("xyz", "ZXZ", "YXZ")),
    *(f"R.from_quat(q[:4]).as_euler({s!r}, degrees=True)" for s in ("xyz", "ZYX", "zxz", "XYX")),
]  # fmt: skip


def test_rotations() -> None:
    with pl.enable_x64(True):
        for row in ROWS:
            names = {"q": QUATERNIONS, "v": VECTORS}
            ours = eval(row, names | {"R": Rotation})
            expected = eval(row, names | {"R": theirs.Rotation})
            np.testing.assert_allclose(ours, expected, 1e-9, 1e-9, err_msg=row)
        times, between = np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.3, 1.0, 2.5])
        ours = Slerp.init(times, Rotation.from_quat(QUATERNIONS[:3]))(between).as_matrix()
        expected = theirs.Slerp(times, theirs.Rotation.from_quat(QUATERNIONS[:3]))(between)
        np.testing.assert_allclose(ours, expected.as_matrix(), 1e-9, 1e-9)


def test_trees_and_errors() -> None:
    rotation = pl.jit(lambda r: r.inv())(Rotation.from_rotvec(np.array([0.1, 0.2, 0.3])))
    np.testing.assert_allclose(rotation.as_rotvec(), [-0.1, -0.2, -0.3], 1e-5)
    with pytest.raises(ArgumentTypeError):
        len(rotation)
    with pytest.raises(ArgumentTypeError):
        rotation[0]
    with pytest.raises(ArgumentValueError):
        rotation.as_euler("zz")
    with pytest.raises(ShapeError):
        Rotation.from_quat(np.ones(3))
    with pytest.raises(ShapeError):
        Slerp.init(np.arange(2.0), rotation)
