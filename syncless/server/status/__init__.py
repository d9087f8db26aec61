"""An operator's view of a server: its state as a page, as JSON and as metrics, and whether it is healthy.

Each process that serves has a row of the scoreboard, in memory that all processes share, and a reporter. The
status server reads the rows, and asks the reporters for what rows cannot say. It runs in the master, or in a
thread of its own beside a single process, and uses nothing of the engine: it responds while a loop is
blocked. Next to read: scoreboard.py, reporter.py, overview.py, endpoint.py, status.py.
"""
