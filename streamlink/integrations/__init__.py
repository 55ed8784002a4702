"""streamlink inside other frameworks: a module for each, imported only when it is asked for.

None of them imports its framework until it is used, and each uses public names of streamlink only.
"""
