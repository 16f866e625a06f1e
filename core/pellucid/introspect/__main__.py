"""`python -m pellucid.introspect rules` prints which primitive has which rule."""

import argparse
import sys

from .rules import rule_table


def main() -> None:
    """Print the table that the command line names."""
    arguments = argparse.ArgumentParser(prog="python -m pellucid.introspect", description=__doc__)
    arguments.add_argument("table", choices=["rules"], help="what to print")
    arguments.parse_args()
    sys.stdout.write(rule_table())


if __name__ == "__main__":
    main()
