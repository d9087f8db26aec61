"""The status of a server for operators: its state as a page, as JSON and as metrics, and its health.

Each process that serves has a row of the scoreboard, in memory that all processes share, and a reporter. The
status server reads the rows, and queries the reporters for everything else. It runs in the master, or in its
own thread alongside a single process, and does not use the engine, so it responds while a loop is blocked.
Next to read: scoreboard.py, reporter.py, overview.py, endpoint.py, status.py.
"""
