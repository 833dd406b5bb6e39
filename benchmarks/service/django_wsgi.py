"""The Django site as a WSGI app."""

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.service.django_settings"
app = get_wsgi_application()
