"""Libraries for asyncio on our loop, under the patch, beside tasks that block."""

import importlib.util

import pytest

from tests.programs import check

pytestmark = pytest.mark.slow

BESIDE = """
import asyncio, sys, threading, time
port = int(sys.argv[1])
async def blocks(ended):
    while not ended.is_set():
        time.sleep(0.001)
        await asyncio.sleep(0)
async def beside(use):
    ended = asyncio.Event()
    blocking = [asyncio.ensure_future(blocks(ended)) for _ in range(10)]
    await asyncio.gather(*[use(number) for number in range(10)])
    ended.set()
    await asyncio.gather(*blocking)
    assert type(asyncio.get_running_loop()).__name__ == "EventLoop"
"""

AIOHTTP = """
import aiohttp, aiohttp.web
async def main():
    async def handler(request):
        time.sleep(0.001)
        return aiohttp.web.Response(text=await request.text())
    application = aiohttp.web.Application()
    application.router.add_post("/", handler)
    runner = aiohttp.web.AppRunner(application)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = "http://127.0.0.1:%d/" % site._server.sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session:
        async def use(number):
            for size in (0, 10, 300_000):
                async with session.post(url, data=b"x" * size) as response:
                    assert len(await response.text()) == size
        await beside(use)
    await runner.cleanup()
asyncio.run(main())
"""

HTTPX = """
import httpx
async def main():
    async with httpx.AsyncClient() as client:
        async def use(number):
            for _ in range(3):
                response = await client.get(f"http://127.0.0.1:{port}/0.001")
                assert response.text == "slept"
        await beside(use)
asyncio.run(main())
"""

ASYNCPG = """
import asyncpg
async def main():
    address = dict(host="127.0.0.1", port=port, user="postgres", database="postgres")
    async with asyncpg.create_pool(min_size=2, max_size=4, **address) as pool:
        async def use(number):
            async with pool.acquire() as connection, connection.transaction():
                assert await connection.fetchval("select $1::int", number) == number
        await beside(use)
asyncio.run(main())
"""

SQLALCHEMY = """
import sqlalchemy, sqlalchemy.ext.asyncio
async def main():
    engine = sqlalchemy.ext.asyncio.create_async_engine(
        f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres", pool_size=3)
    async def use(number):
        async with engine.connect() as connection:
            assert (await connection.execute(sqlalchemy.text("select 5 * 5"))).scalar() == 25
    await beside(use)
    await engine.dispose()
asyncio.run(main())
"""

ANYIO = """
import anyio, anyio.to_thread, sniffio
async def main():
    async def use(number):
        assert sniffio.current_async_library() == "asyncio"
        time.sleep(0.001)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.001)
            with anyio.move_on_after(0.001) as scope:
                await anyio.sleep(60)
            assert scope.cancelled_caught
        assert await anyio.to_thread.run_sync(time.sleep, 0.001) is None
        sender, receiver = anyio.create_memory_object_stream(1)
        async with sender, receiver:
            await sender.send(number)
            assert await receiver.receive() == number
    await beside(use)
anyio.run(main)
"""

LIBRARIES = {
    "aiohttp": (AIOHTTP, ["aiohttp"], None),
    "httpx": (HTTPX, ["httpx"], "http"),
    "asyncpg": (ASYNCPG, ["asyncpg"], "postgresql"),
    "sqlalchemy": (SQLALCHEMY, ["sqlalchemy", "asyncpg"], "postgresql"),
    "anyio": (ANYIO, ["anyio", "sniffio"], None),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_library_works_beside_tasks_that_block(library, port_of):
    program, modules, server = LIBRARIES[library]
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install --group clients")
    check(BESIDE + program, port_of(server))
