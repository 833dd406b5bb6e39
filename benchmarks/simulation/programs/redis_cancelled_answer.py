"""A task is cancelled while it waits for the answer of the server: the next command gets that answer."""

import asyncio

import redis.asyncio


async def serve(reader, writer):
    while head := await reader.readline():
        words = []
        for _ in range(int(head[1:])):
            size = int((await reader.readline())[1:])
            words.append((await reader.readexactly(size + 2))[:-2])
        value = words[-1] if words[0] == b"GET" else b"OK"
        writer.write(b"$%d\r\n%s\r\n" % (len(value), value))
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = redis.asyncio.Redis(port=server.sockets[0].getsockname()[1], single_connection_client=True)
    async with client:
        await client.get("colour")
        for number in range(4):
            task = asyncio.create_task(client.get("colour"))
            await asyncio.sleep(number / 100)
            task.cancel()
            await asyncio.wait([task])
            assert await client.get("size") == b"size"
    server.close()


asyncio.run(main())
