"""Benchmarks of Dhaga and its rivals: `python -m benchmarks.NAME --help`, where NAME is a module or a package.

- `kernel`, `web`, and the modules that measure one part of the library: they print, and write JSON on request.
- The published experiments, each a package: `backup`, `rate_model`, `pipeline`, `polling`, `load_testers`, `file_io`,
  `celery_pool`. `__main__.py` measures and draws; the other modules are its parts.
- `tables` runs these experiments, and makes the report and README's tables from the files in `results`.
- `machine` describes the machine that runs the benchmarks; `markdown` prints tables.
"""
