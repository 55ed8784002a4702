"""Memory and time of the same job with streamlink and with APPFL 1.12, in environments apart."""
