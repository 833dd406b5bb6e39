"""A task that a condition notifies is cancelled by its timeout at the same time: the notification is lost."""

import asyncio


async def main():
    condition, items = asyncio.Condition(), []

    async def take(timeout):
        async with asyncio.timeout(timeout), condition:
            while not items:
                await condition.wait()
            items.pop()

    async def put():
        await asyncio.sleep(1)
        async with condition:
            items.append(1)
            condition.notify()

    impatient, patient = asyncio.create_task(take(1)), asyncio.create_task(take(10))
    await put()
    done, _ = await asyncio.wait([impatient, patient])
    assert any(each.exception() is None for each in done), "nobody took the item"


asyncio.run(main())
