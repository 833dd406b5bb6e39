"""Check all links of a site, in the form of Dhaga: ``python -m examples.migrate``."""

from examples.migrate.on_dhaga import main

main()
