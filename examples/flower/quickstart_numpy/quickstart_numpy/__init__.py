"""Flower's quickstart with NumPy, its arrays over streamlink."""
