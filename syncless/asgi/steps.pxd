from syncless.asyncio.dispatcher cimport Dispatcher


cdef object begin_task(Dispatcher dispatcher, object coroutine)
