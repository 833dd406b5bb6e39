"""A load tester: thousands of users as dhagas, and scenarios that are plain Python.

    pip install 'dhaga[examples]'
    python -m examples.load http://localhost:8000/ --rate 500                500 requests are due each second
    python -m examples.load http://localhost:8000/ --users 1000 --ramp 10s   1,000 users, one run after the other
    python -m examples.load http://localhost:8000/ --find p99=50ms           the highest rate that holds that bound

`README.md` beside this file tells the rest. `load.py` is what all users share, `users.py` what a scenario is given,
`open_loop.py` and `closed_loop.py` the two ways in which runs begin, `statistics.py` what is counted.
Nothing here reaches below the public faces of Dhaga.
"""
