"""Frameworks over streamlink: cases that are run with and without it, their numbers, the table.

``<framework>.py`` says how one case is run, ``running`` runs and watches it, ``inside`` is what the
measured processes import, ``environments`` builds what they run in, ``series`` interleaves the
lines and keeps the results, ``report`` prints them beside what was asked for.
"""
