"""Hides ``_wmi`` from ``platform``: a query calls a function of propsys.dll that Wine lacks, and ends the process."""

raise ImportError("Wine answers no queries of WMI")
