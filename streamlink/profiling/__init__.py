"""Experiments that measure, each a program beside the library: ``streamlink profile EXPERIMENT``.

What all of them share stands here: ``folder`` (results that are never overwritten), ``page`` (one
HTML file that needs no network), ``pictures`` and ``memory``. Each experiment is a package of its
own.
"""
