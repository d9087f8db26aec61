from syncless.asyncio.rounds cimport Rounds


cdef object begin_task(Rounds rounds, object coroutine)
