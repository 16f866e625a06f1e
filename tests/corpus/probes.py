"""Programs that try the oracle itself."""

import os
import time
import warnings


def double(jax, x):
    return {"twice": jax.numpy.asarray(x) * 2, "none": None}


def fail(jax, text):
    raise KeyError(text)


def wrong_shapes(jax):
    return jax.numpy.ones(3) + jax.numpy.ones(4)


def weak(jax):
    return jax.numpy.asarray(1.0), jax.numpy.asarray(2, "int8"), 3, "text"


def device_count(jax):
    return jax.device_count(), str(jax.numpy.asarray(1.0).dtype)


def split_key(jax, key):
    return jax.random.split(key)


def die(jax):
    print("dying now", flush=True)
    os._exit(3)


def sleep(jax, seconds):
    time.sleep(seconds)


def chatter(jax):
    print("this must not reach the answers")
    warnings.warn("look out", UserWarning, stacklevel=1)
    return jax.numpy.zeros(2)


def process_id(jax):
    return os.getpid()


class Nested:
    @staticmethod
    def method(jax):
        return "found"
