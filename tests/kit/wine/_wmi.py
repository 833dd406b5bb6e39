"""Hides ``_wmi`` from ``platform``: a query ends Wine's process by a function of propsys.dll that Wine lacks."""

raise ImportError("Wine answers no queries of WMI")
