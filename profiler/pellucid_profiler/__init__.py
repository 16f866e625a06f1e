"""Records what a program does over time, and analyses it."""
