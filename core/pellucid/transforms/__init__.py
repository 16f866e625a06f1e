"""Program to program: differentiation and vectorization."""
