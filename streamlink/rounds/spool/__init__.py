"""Gathering through a spool: each update is stored first, so a slow client can be left out."""
