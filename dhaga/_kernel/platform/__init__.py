"""The room of what the operating system decides: ``posix`` and ``windows``, of which ``system`` names one."""
