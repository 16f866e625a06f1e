"""An array library without devices: its meshes are abstract, arrays that are placed are types, and nothing runs."""

import functools

import numpy as np


class Answer(Exception):
    """What was said of the first call of a jitted function."""

    def __init__(self, said):
        super().__init__(said)
        self.said = said


class Abstract:
    """`library` over abstract meshes of `device`.

    A program ends at its first call of a jitted function from outside of all traces, with the Answer that `ask(jitted, *args)` gives.
    """

    def __init__(self, library, device, ask):
        self._library = library
        self._device = device
        self._ask = ask
        self.sharding = _Sharding(library)
        self.set_mesh = self.sharding.set_mesh

    def __getattr__(self, name):
        return getattr(self._library, name)

    def make_mesh(self, sizes, names, *, axis_types=None):
        sharding = self._library.sharding
        types = axis_types or (sharding.AxisType.Explicit,) * len(names)
        return sharding.AbstractMesh(sizes, names, types, abstract_device=self._device)

    def device_put(self, tree, placement):
        return self._library.tree.map(
            lambda x: self._library.ShapeDtypeStruct(
                np.shape(x), np.asarray(x).dtype, sharding=placement
            ),
            tree,
        )

    def jit(self, function=None, **options):
        if function is None:
            return functools.partial(self.jit, **options)
        jitted = self._library.jit(function, **options)

        def call(*args):
            leaves = self._library.tree.leaves(args)
            if any(isinstance(x, self._library.core.Tracer) for x in leaves):
                return jitted(*args)
            raise Answer(self._ask(jitted, *args))

        return call


class _Sharding:
    def __init__(self, library):
        self._sharding = library.sharding

    def __getattr__(self, name):
        return getattr(self._sharding, name)

    def set_mesh(self, mesh):
        return self._sharding.use_abstract_mesh(mesh)
