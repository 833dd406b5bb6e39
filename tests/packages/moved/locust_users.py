"""A locustfile: users by requests and by geventhttpclient, whose first request is answered once all of them wait."""

import os

from locust import FastHttpUser, HttpUser, constant, task

FIRST = f"/first?count={os.environ['USERS']}"


class Slow(HttpUser):
    wait_time = constant(0.05)

    def on_start(self):
        self.client.get(FIRST)

    @task
    def echo(self):
        self.client.post("/echo", data=b"x" * 100)


class Fast(FastHttpUser):
    wait_time = constant(0.05)

    def on_start(self):
        self.client.get(FIRST)

    @task
    def echo(self):
        self.client.post("/echo", data=b"x" * 100)
