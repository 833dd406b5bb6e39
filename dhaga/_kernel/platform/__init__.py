"""Code that depends on the operating system: ``posix`` and ``windows``; ``system`` is the module in use."""
