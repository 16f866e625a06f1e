"""First-order primitives: their params hold no programs."""
