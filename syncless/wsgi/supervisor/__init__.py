"""Several worker processes and the one that supervises them: master.py there, worker.py in each of the
others, slot.py between the two."""

from syncless.wsgi.supervisor.master import Master, WorkersFailed

__all__ = ["Master", "WorkersFailed"]
