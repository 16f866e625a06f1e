"""The part of the build that `pyproject.toml` can't say: one shared library of C++."""

from setuptools import Extension, setup

from pellucid import ffi

setup(
    ext_modules=[
        Extension(
            "linear_recurrence.native",  # loaded by ctypes: it needs no header of Python
            ["src/linear_recurrence/native.cc"],
            depends=["pyproject.toml"],
            language="c++",
            # Headers of the system: their warnings aren't ours.
            extra_compile_args=["-std=c++17", "-O3", "-isystem", ffi.include_dir()],
        )
    ]
)
