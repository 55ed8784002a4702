"""What the APPFL cases run: a server and its clients, with and without streamlink."""
