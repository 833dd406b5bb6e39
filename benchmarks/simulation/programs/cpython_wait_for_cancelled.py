"""A task waits with a timeout, and is cancelled just when the result comes: the cancel is lost."""

import asyncio


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
    writer.close()


async def ask(port, questions):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for question in questions:
        writer.write(question)
        await asyncio.wait_for(reader.readline(), 10)
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    questions = [b"question\n"] * 20
    for number in range(8):
        task = asyncio.create_task(ask(server.sockets[0].getsockname()[1], questions))
        await asyncio.sleep(number / 50)
        if task.cancel():
            await asyncio.wait([task])
            assert task.cancelled()
    server.close()


asyncio.run(main())
