"""Programs that measure what streamlink claims, beside what others would do with the same work.

``python -m benchmarks`` runs them; ``README.md`` says which claim each one supports. They stand
outside the package and use its public names only.
"""
