"""`pellucid.image`: resizing, scaling and translation of images."""

from pellucid.image.resampling import (
    ResizeMethod as ResizeMethod,
    resize as resize,
    scale_and_translate as scale_and_translate,
)

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
