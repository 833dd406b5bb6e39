"""A locustfile: users whose tasks are coroutines, each with two requests at a time."""

import asyncio
import os

from locust import HttpUser, constant, task

FIRST = f"/first?count={2 * int(os.environ['USERS'])}"


class Shopper(HttpUser):
    wait_time = constant(0.05)

    def on_start(self):
        asyncio.run(self.load(FIRST, FIRST))

    @task
    def echo(self):
        asyncio.run(self.load("/echo", "/echo"))

    async def load(self, *paths):
        await asyncio.sleep(0.001)
        async with asyncio.TaskGroup() as group:
            for path in paths:
                group.create_task(asyncio.to_thread(self.client.post if path == "/echo" else self.client.get, path))
