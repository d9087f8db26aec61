"""OpenTelemetry: spans of requests with their waits, and metrics, sent to a collector by a thread beside the
loop.

tracer.py makes a record of each traced request; messages.py and waits.py make messages of it in the thread of
exporter.py, which sends them. settings.py reads the standard variables.
"""
