"""What ``streamlink init`` writes: one folder for each template, and a README that all share.

The files are those of the user's project; nothing here is imported by streamlink.
"""
