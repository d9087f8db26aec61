"""asyncio in a WSGI application: a request sets a timer that fires after its response, or awaits coroutines.

python -m syncless examples.later
curl localhost:8000/            # answers at once; a second later a line is printed
curl localhost:8000/both        # two coroutines that run at the same time
"""

import asyncio

from syncless.asyncio import await_

elapsed = 0


def second_elapsed():
    global elapsed
    elapsed += 1
    print("a second elapsed", flush=True)


async def slow(word):
    await asyncio.sleep(0.1)
    return word


async def both():
    return " ".join(await asyncio.gather(slow("one"), slow("two")))


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/both":
        return [await_(both()).encode()]
    asyncio.get_event_loop().call_later(1, second_elapsed)
    return [b"%d timers of earlier requests have run\n" % elapsed]
