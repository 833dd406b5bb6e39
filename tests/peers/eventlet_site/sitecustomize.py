"""Let the programs that eventlet's own tests start import Dhaga's ``eventlet``, too."""

from __future__ import annotations

import dhaga.compat

dhaga.compat.install("eventlet")
