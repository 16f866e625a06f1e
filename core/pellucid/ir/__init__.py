"""The program and its types: avals, primitives, jaxprs; their text, checker and rewriting."""
