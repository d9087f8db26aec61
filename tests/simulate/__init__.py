"""Looks for faults: a web server and its clients in one process, in short episodes that a seed fixes whole.

``python -m tests.simulate --seconds 60 --seed N`` needs a build with assertions (SYNCLESS_BUILD=debug or
asan). It forks an episode from a warmed process for each seed. What is found is printed with its seed, which
brings it back: ``python -m tests.simulate --seed N --episodes 1``. The status is 1 if something was found.

| file | what it has |
|---|---|
| `__main__.py` | the command: findings, and what they have in common |
| `forks.py` | a warmed process, and an episode forked from it: what must be equal for a seed to repeat |
| `episode.py` | one episode: a server, its clients, and what must be so at its end |
| `application.py` | the application, of WSGI and of ASGI |
| `clients.py` | clients that do what they should, and must get what they should |
| `crowds.py` | tasklets that share one lock or queue, while some of them are killed |
| `intruders.py` | clients that say odd things and leave in odd ways |
| `faults.py` | calls of the system that fail, or do half of what they could |

Three things come from the seed: what server and clients do (`random.Random`), which tasklet runs next
(`syncless/_core/explore.pyx`), and which calls of the system fail (`tests/failing_calls.c`). Time is virtual
(`tests/virtual_clock.c`): it stands still while anything runs.OS threads are left out, because their moments
would come from the machine: their calls run in place, between two turns of other tasklets. The thread of
native handlers takes its turns in a tasklet, and a second listener of the same thread has the place of a
thread that stands by.
"""
