"""streamlink inside other frameworks; each is imported only when it is asked for."""
