"""A coroutine waits until all items are done, while a thread finishes one and puts the next."""

import asyncio
import threading

import janus


async def main():
    queue = janus.Queue()
    await queue.async_q.put(1)

    def work():
        queue.sync_q.get()
        queue.sync_q.task_done()

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.sleep(0)
    await queue.async_q.put(2)

    async def finish():
        await queue.async_q.get()
        await asyncio.sleep(0)
        queue.async_q.task_done()

    task = asyncio.create_task(finish())
    await queue.async_q.join()
    await task
    thread.join()
    queue.close()
    await queue.wait_closed()


asyncio.run(main())
