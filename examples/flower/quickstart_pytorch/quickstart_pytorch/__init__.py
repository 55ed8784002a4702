"""Flower's quickstart with PyTorch, its arrays over streamlink."""
