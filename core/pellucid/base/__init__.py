"""Vocabulary that everybody needs: errors, options, events, sources, dtypes, trees."""
