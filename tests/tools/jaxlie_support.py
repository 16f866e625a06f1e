"""What jaxlie's tests import as `utils`, a file that its source distribution lacks: the tested groups, random poses, comparisons."""

import itertools

import jax
import jaxlie
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)

GROUPS = jaxlie.SO2, jaxlie.SE2, jaxlie.SO3, jaxlie.SE3
_seeds = iter(range(1_000_000))


def general_group_test(test):
    """The test for each group, of one pose, a vector and a matrix of them."""
    test = pytest.mark.parametrize("batch_axes", [(), (1,), (3, 1, 2)])(test)
    return pytest.mark.parametrize("Group", GROUPS)(test)


def general_group_test_faster(test):
    """The test for each group, of one pose."""
    test = pytest.mark.parametrize("batch_axes", [()])(test)
    return pytest.mark.parametrize("Group", GROUPS)(test)


def sample_transform(group, batch_axes=()):
    """Other random poses at each call."""
    return group.sample_uniform(jax.random.key(next(_seeds)), batch_axes=batch_axes)


def assert_arrays_close(*arrays, rtol=1e-8, atol=1e-8):
    """All arrays are finite, and those that follow each other are close."""
    for a, b in itertools.pairwise(arrays):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def assert_transforms_close(a, b):
    """Both poses have one matrix, and the same parameters up to the sign of their quaternions."""
    assert_arrays_close(a.as_matrix(), b.as_matrix())
    assert_arrays_close(_with_positive_quaternion(a), _with_positive_quaternion(b))


def _with_positive_quaternion(pose):
    parameters = np.array(pose.parameters())
    if isinstance(pose, jaxlie.SO3 | jaxlie.SE3):
        quaternion = parameters[..., :4]
        largest = np.abs(quaternion).argmax(-1)[..., None]
        quaternion *= np.sign(np.take_along_axis(quaternion, largest, -1))
    return parameters


def jacnumerical(f):
    """A function that gives the Jacobian of `f`, a function of a vector, by central differences."""

    def jacobian(x, step=1e-4):
        x = np.asarray(x)
        columns = [
            (np.asarray(f(x + step * e)) - np.asarray(f(x - step * e))) / (2 * step)
            for e in np.eye(x.size)
        ]
        return np.stack(columns, axis=-1)

    return jacobian
