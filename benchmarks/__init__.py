"""Dhaga measured beside its rivals: `python -m benchmarks.NAME --help`, where a name is a module or a package.

- `kernel`, `web`, and the modules that measure one district of the library: they print, and write JSON where told.
- The experiments that the idea was argued with, each a package: `backup`, `rate_model`, `pipeline`, `polling`,
  `load_testers`, `file_io`, `celery_pool`. `__main__.py` measures and draws; the other modules are its parts.
- `tables` runs those and makes the report, and README's tables, out of all that lies in `results`.
- `machine` describes the machine that is measured on; `markdown` prints tables.
"""
