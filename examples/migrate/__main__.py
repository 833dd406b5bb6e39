"""Check all links of a site, in the form of Dhaga: ``python -m examples.migrate``."""

import argparse

from examples.migrate.on_dhaga import main

argparse.ArgumentParser(
    prog="python -m examples.migrate",
    description="Check all links of a small site that it serves itself: README.md beside it explains the program.",
).parse_args()
main()
