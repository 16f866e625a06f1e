"""Expressions over `image` and `scipy`, evaluated with either library."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

IMAGE = (
    'image.resize(jnp.arange(6), (3,), "nearest")',
    'image.resize(jnp.arange(6), (3,), "linear")',
    'image.resize(np.arange(6.), (3,), "area")',
    'image.resize(np.arange(6.), (13,), "area")',
    "image.resize(jnp.arange(6.), (4,), image.ResizeMethod.AREA)",
    "image.resize(jnp.arange(6.), (13,), image.ResizeMethod.AREA)",
    'image.resize(2., (), "linear")',
    'image.resize(jnp.arange(6.), (3,1), "linear")',
    'image.resize(jnp.arange(6.), (0,), "linear")',
    'image.resize(jnp.arange(6.), (0,), "nearest")',
    "image.resize(jnp.arange(6.).astype('bfloat16'), (4,), \"cubic\")",
    'image.resize(jnp.arange(6.)+1j, (4,), "cubic")',
    'image.resize(jnp.arange(6)>2, (4,), "linear")',
    'image.resize(jnp.arange(6)>2, (6,), "linear")',
    'image.resize(jnp.arange(6), (6,), "linear")',
    'image.resize(jnp.arange(6.), (4.,), "linear")',
    'image.resize(jnp.arange(6.), 4, "linear")',
    'image.resize(jnp.arange(6.), (4,), "xyz")',
    'image.resize(jnp.arange(6.), (4,), "cubic", precision="high")',
    'image.resize(jnp.arange(6.), (4,), "cubic", precision="foo")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (0,), jnp.array([2.]), jnp.array([1.]), "linear")',
    'image.scale_and_translate(jnp.arange(6), (4,), (0,), jnp.array([2.]), jnp.array([1.]), "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (0,), np.array([2.]), jnp.array([1]), "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (0,), jnp.array([2]), jnp.array([1]), "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (-1,), jnp.array([2.]), jnp.array([1.]), "area")',
    "image.scale_and_translate(jnp.arange(6.), (4,), (-1,), jnp.array([2.]), jnp.array([1.]), image.ResizeMethod.AREA)",
    "image.scale_and_translate(jnp.arange(6.), (4,), (-1,), jnp.array([.7]), jnp.array([1.]), image.ResizeMethod.AREA)",
    "image.scale_and_translate(jnp.arange(6.), (4,), (-1,), jnp.array([.7]), jnp.array([1.]), image.ResizeMethod.AREA,antialias=False)",
    'image.scale_and_translate(jnp.arange(6.), (4,), (0,), jnp.array([2.]), jnp.array([1.]), "nearest")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (0,), jnp.array([0.]), jnp.array([1.]), "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (1,), jnp.array([1.,]), jnp.array([1.]), "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (0,), [1.], [1.], "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,), (), jnp.zeros(0), jnp.zeros(0), "linear")',
    'image.scale_and_translate(jnp.arange(6.), (4,2), (0,), jnp.ones(1), jnp.zeros(1), "linear")',
    "image.scale_and_translate(jnp.arange(6.).astype('float16'), (4,), (0,), jnp.ones(1), jnp.zeros(1), \"linear\")",
    'image.scale_and_translate(jnp.arange(1.,7.), (6,), (0,), jnp.array([.7]), jnp.array([.5]), "area")',
    'image.scale_and_translate(jnp.arange(1.,7.), (6,), (0,), jnp.array([.7]), jnp.array([.2]), "area")',
    'image.scale_and_translate(jnp.arange(1.,7.), (6,), (0,), jnp.array([.7]), jnp.array([-.2]), "area")',
    'image.scale_and_translate(jnp.arange(1.,7.), (6,), (0,), jnp.array([-1.]), jnp.array([6.]), "linear")',
)
SIGNAL = (
    "signal.convolve(jnp.arange(3), jnp.arange(2))",
    'signal.convolve(jnp.arange(3.), jnp.arange(2.), mode="same")',
    'signal.convolve(jnp.arange(3.), jnp.arange(5.), mode="same")',
    'signal.convolve(jnp.arange(3.), jnp.arange(5.), mode="valid")',
    "signal.convolve(jnp.arange(3.), jnp.ones((2,2)))",
    'signal.convolve(jnp.ones((3,2)), jnp.ones((2,3)), mode="valid")',
    'signal.convolve(jnp.ones((2,2)), jnp.ones((3,3)), mode="same")',
    "signal.convolve(jnp.ones((0,)), jnp.ones((3)))",
    "signal.convolve(jnp.ones((3,)), jnp.ones((0)))",
    "signal.convolve(jnp.ones(()), jnp.ones(()))",
    'signal.convolve(jnp.ones(3), jnp.ones((3)),mode="x")',
    'signal.convolve(jnp.ones(3), jnp.ones((3)),method="x")',
    'signal.convolve(jnp.ones(3), jnp.ones((3)),method="fft")',
    'signal.convolve(jnp.arange(3), jnp.arange((3)),method="fft")',
    "signal.convolve(jnp.arange(3)>0, jnp.arange((3))>0)",
    "signal.convolve(jnp.arange(3.).astype('bfloat16'), jnp.arange(3.).astype('float16'))",
    "signal.convolve(jnp.arange(3.)+1j, jnp.arange(3.))",
    "signal.correlate(jnp.arange(3.)+1j, jnp.arange(3.)+1j)",
    "signal.correlate(jnp.arange(3.)+1j, jnp.arange(3.)+2j,method='fft')",
    'signal.correlate(jnp.arange(3.), jnp.arange(5.),"same")',
    'signal.correlate(jnp.arange(3.), jnp.arange(5.),"valid")',
    'signal.correlate(jnp.arange(3.), jnp.arange(5.),"full")',
    'signal.correlate(jnp.arange(3.), jnp.arange(5.),"valid","fft")',
    'signal.correlate(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"valid")',
    'signal.correlate(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"same")',
    'signal.correlate(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"same","fft")',
    'signal.correlate2d(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"same")',
    'signal.correlate2d(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"full")',
    'signal.correlate2d(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"valid")',
    'signal.correlate2d(jnp.arange(6.).reshape(2,3), jnp.arange(8.).reshape(4,2),"valid")',
    'signal.correlate2d(jnp.arange(6.).reshape(2,3), jnp.arange(4.).reshape(2,2)+1j,"valid")',
    'signal.convolve2d(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"same")',
    'signal.convolve2d(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"same",boundary="wrap")',
    'signal.convolve2d(jnp.arange(4.).reshape(2,2), jnp.arange(9.).reshape(3,3),"same",fillvalue=1)',
    'signal.convolve2d(jnp.arange(4.), jnp.arange(9.).reshape(3,3),"same")',
    'signal.convolve2d(jnp.zeros((0,2)), jnp.arange(9.).reshape(3,3),"same")',
    'signal.convolve2d(jnp.arange(6).reshape(2,3), jnp.arange(8).reshape(4,2),"bla")',
    "signal.fftconvolve(jnp.arange(3), jnp.arange(2))",
    'signal.fftconvolve(jnp.arange(3.), jnp.arange(5.),"same")',
    'signal.fftconvolve(jnp.arange(3.), jnp.arange(5.),"valid")',
    "signal.fftconvolve(jnp.ones((3,4)), jnp.ones((2,4)),axes=0)",
    "signal.fftconvolve(jnp.ones((3,4)), jnp.ones((2,3)),axes=[0])",
    "signal.fftconvolve(jnp.ones((3,4)), jnp.ones((2,3)),axes=[])",
    "signal.fftconvolve(jnp.ones((3,4)), jnp.ones((2,3)),axes=[0,0])",
    "signal.fftconvolve(jnp.ones((3,4)), jnp.ones((2,3)),axes=[5])",
    'signal.fftconvolve(jnp.ones((3,4)), jnp.ones((4,3)),"valid")',
    "signal.fftconvolve(jnp.ones((3,)), jnp.ones((4,3)))",
    "signal.fftconvolve(jnp.ones((0,)), jnp.ones((4)))",
    "signal.fftconvolve(2., 3.)",
    "signal.fftconvolve(jnp.arange(3.)+1j, jnp.arange(2.))",
    "signal.fftconvolve(jnp.arange(3.).astype('float16'), jnp.arange(2.))",
    "signal.fftconvolve([1.,2], [3.,4])",
    "signal.detrend(jnp.array([1.,2,4,8,3]))",
    "signal.detrend(jnp.array([1,2,4,8,3]))",
    'signal.detrend(jnp.array([1.,2,4,8,3]), type="constant")',
    'signal.detrend(jnp.array([1.,2,4,8,3]), type="const")',
    'signal.detrend(jnp.array([1.,2,4,8,3]), type="l")',
    "signal.detrend(jnp.array([1.,2,4,8,3]), bp=2)",
    "signal.detrend(jnp.array([1.,2,4,8,3]), bp=[1,4])",
    "signal.detrend(jnp.array([1.,2,4,8,3]), bp=[1,7])",
    "signal.detrend(jnp.array([[1.,2,4,8,3],[3,1,2,3,4]]),axis=0)",
    "signal.detrend(jnp.array([[1.,2,4,8,3],[3,1,2,3,4]])*1j,axis=1)",
    "signal.detrend(jnp.array([1.,2,4,8,3]), overwrite_data=True)",
    "signal.detrend(jnp.zeros(1))",
    "signal.detrend([1.,2.])",
    "signal.stft(jnp.arange(20.), nperseg=8)",
    "signal.stft(jnp.arange(20), nperseg=8)",
    'signal.stft(jnp.arange(20.), nperseg=8, window="hamming")',
    'signal.stft(jnp.arange(20.), nperseg=8, window=("kaiser",3.))',
    "signal.stft(jnp.arange(20.), nperseg=8, window=jnp.ones(8))",
    "signal.stft(jnp.arange(20.), nperseg=8, window=np.ones(8))",
    "signal.stft(jnp.arange(20.), nperseg=8, window=np.ones(6))",
    'signal.stft(jnp.arange(20.), nperseg=8, window="bla")',
    'signal.stft(jnp.arange(20.), nperseg=8, noverlap=3, nfft=10, detrend="linear", boundary=None, padded=False)',
    "signal.stft(jnp.arange(20.), nperseg=8, noverlap=9)",
    "signal.stft(jnp.arange(20.), nperseg=8, nfft=4)",
    'signal.stft(jnp.arange(20.), nperseg=8, boundary="even")',
    'signal.stft(jnp.arange(20.), nperseg=8, boundary="odd")',
    'signal.stft(jnp.arange(20.), nperseg=8, boundary="constant")',
    'signal.stft(jnp.arange(20.), nperseg=8, boundary="blub")',
    "signal.stft(jnp.arange(20.), nperseg=8, return_onesided=False)",
    "signal.stft(jnp.arange(20.)*1j, nperseg=8)",
    "signal.stft(jnp.arange(20.)*1j, nperseg=8, return_onesided=False)",
    "signal.stft(jnp.arange(20.), nperseg=30)",
    "signal.stft(jnp.arange(20.))",
    "signal.stft(jnp.arange(40.).reshape(20,2), nperseg=8, axis=0,fs=10.)",
    "signal.stft(jnp.arange(40.).reshape(2,20), nperseg=8, detrend=lambda x:x*2)",
    "signal.stft(jnp.zeros(0), nperseg=8)",
    "signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(20.)), nperseg=8)",
    "signal.csd(jnp.arange(20.), None, nperseg=8)",
    "signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(15.)), nperseg=8)",
    "signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(40.)).reshape(2,20), nperseg=8)",
    'signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(20.)), nperseg=8,average="median")',
    'signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(20.)), nperseg=8,average="blah")',
    'signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(20.)), nperseg=8,scaling="spectrum")',
    'signal.csd(jnp.arange(20.), jnp.cos(jnp.arange(20.)), nperseg=8,scaling="blah")',
    "signal.csd(jnp.arange(20.)*1j, jnp.cos(jnp.arange(20.)), nperseg=8)",
    "signal.welch(jnp.cos(jnp.arange(50.)), nperseg=8)",
    "signal.welch(jnp.cos(jnp.arange(50.)), nperseg=7)",
    "signal.welch(jnp.cos(jnp.arange(50.)))",
    'signal.welch(jnp.cos(jnp.arange(50.)), nperseg=8, detrend=False, return_onesided=False, average="median", fs=3)',
    "signal.welch(jnp.cos(jnp.arange(50)))",
    "signal.welch(jnp.cos(jnp.arange(48.)).reshape(3,16), axis=0, nperseg=2)",
    "signal.welch(jnp.cos(jnp.arange(48.)).reshape(3,16), axis=1, nperseg=0)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2], nperseg=8)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2])",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8, return_onesided=False)[2], nperseg=8, input_onesided=False)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2], nperseg=8,boundary=False)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8,noverlap=2)[2], nperseg=8,noverlap=2,fs=4.)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8,noverlap=2,nfft=12)[2], nperseg=8,noverlap=2,nfft=12)",
    "signal.istft(jnp.swapaxes(signal.stft(jnp.arange(20.), nperseg=8)[2],0,1), time_axis=0,freq_axis=1)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2], time_axis=0,freq_axis=0)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2], nperseg=4)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2], noverlap=8)",
    "signal.istft(signal.stft(jnp.arange(20.), nperseg=8)[2], nfft=7)",
    "signal.istft(jnp.zeros(3))",
    "signal.istft(jnp.ones((5,3)))",
)
TEXTS = (*IMAGE, *SIGNAL)


MODULES = (
    "cluster.vq", "fft", "integrate", "interpolate", "ndimage", "optimize", "signal", "sparse.linalg",
    "spatial.transform",
)  # fmt: skip


def evaluate(jax: Any, text: str) -> Any:
    """The value of an expression, in which submodules of `scipy` have their names, without the package's."""
    names = {"jax": jax, "jnp": jax.numpy, "np": np, "image": jax.image, "random": jax.random}
    for module in MODULES:
        if f"{module.rpartition('.')[2]}." in text:
            name = f"{jax.__name__}.scipy.{module}"
            names[module.rpartition(".")[2]] = importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, names)


def answers(jax: Any, texts: list[str]) -> list[Any]:
    """For each expression (dtype, weak type, shape, elements) of its leaves, or the classes of its error."""
    results: list[Any] = []
    for text in texts:
        try:
            leaves = jax.tree.leaves(evaluate(jax, text))
            results.append([described(x) for x in leaves])
        except Exception as error:  # the reference's own errors, too
            classes = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
            results.append(classes[0])
    return results


def described(x: Any) -> tuple[Any, ...]:
    """Dtype, weak type, and elements in a dtype that NumPy has."""
    host = np.asarray(x)
    elements = host.astype(np.complex128 if host.dtype.kind == "c" else np.float64)
    return str(host.dtype), bool(getattr(x, "weak_type", False)), elements
