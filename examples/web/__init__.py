"""An ordinary Flask app in front of a slow backend, served in three ways: by threads, and twice by dhagas.

    pip install 'dhaga[examples]'
    python -m examples.web threads      gunicorn, its thread worker with 200 threads
    python -m examples.web serve        python -m dhaga serve examples.web.app:app
    python -m examples.web gunicorn     gunicorn -k dhaga.integrations.gunicorn.Worker examples.web.app:app
    python -m examples.web.compare      each of them with 200, 1,000 and 3,000 requests at once, in a table

Each starts the backend, too. Then, with the server at its default address:

    curl localhost:8000/report/7                 waits a second for the backend
    curl localhost:8000/news?since=0             waits until there is news …
    curl -d text=hello localhost:8000/news       … which this brings to all who wait

`app.py` is the app: two import lines make it one for dhagas. `backend.py` is what is slow; `servers.py` are the three
command lines. Nothing here reaches below the public faces of Dhaga.
"""
