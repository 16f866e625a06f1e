"""Matrix decompositions and solvers: primitives with all their rules, and their functions."""
