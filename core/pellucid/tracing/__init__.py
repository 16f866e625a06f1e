"""A Python call becomes a program: traces, tracers, staging, replay."""
