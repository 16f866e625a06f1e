"""The one room that imports jaxlib; it irons out the differences between jaxlib's releases.

Nothing here knows a program, a trace or a user's function. Features are detected, never version numbers.
"""

from pellucid.xla import bootstrap as _bootstrap
