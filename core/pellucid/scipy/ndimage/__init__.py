"""`pellucid.scipy.ndimage`: interpolation of arrays at coordinates between their elements."""

from pellucid.scipy.ndimage.interpolation import map_coordinates as map_coordinates

__all__ = ["map_coordinates"]
