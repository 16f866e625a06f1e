"""A module becomes an executable."""
