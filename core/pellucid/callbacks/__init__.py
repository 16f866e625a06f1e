"""Python functions called from programs: for their results, for what they do, for looking on."""
