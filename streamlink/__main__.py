"""``python -m streamlink``: the same as the ``streamlink`` command."""

from streamlink.cli import main

if __name__ == "__main__":
    main()
