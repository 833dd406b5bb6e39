"""Support for other packages, one module for each. A module is imported only where its package is used."""
