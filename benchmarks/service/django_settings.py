"""The settings of the Django site: PostgreSQL through Django's own pool (psycopg 3)."""

from urllib.parse import urlsplit

from benchmarks.service.database import CONNECTIONS, PATIENCE, POSTGRES

_where = urlsplit(POSTGRES)

SECRET_KEY = "not one"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "benchmarks.service.django_site"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _where.hostname,
        "PORT": _where.port,
        "USER": _where.username,
        "PASSWORD": _where.password or "",
        "NAME": _where.path[1:],
        "OPTIONS": {"pool": {"min_size": CONNECTIONS, "max_size": CONNECTIONS, "timeout": PATIENCE}},
    }
}
