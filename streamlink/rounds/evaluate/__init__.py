"""Evaluation of new models at the clients: what they answer, and the result of all answers."""
