"""Dhaga measured beside its rivals: `python -m benchmarks.NAME --help`, where a name is a module or a package.

- `kernel`, `web`, and the modules that measure one room of the library: they print, and write JSON where told.
- The experiments that the idea was argued with: `backup`, `rate_model`, `pipeline`, `polling`, `load_testers`,
  `file_io`. Their parts are in packages: `backups`, `model`, `pipelines`, `counting`, `testers`, `writes`.
- `tables` runs those and makes the report, and README's tables, out of all that lies in `results`.
"""
