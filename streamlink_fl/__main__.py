"""``python -m streamlink_fl``: the ``streamlink`` command, under a name that is ours alone."""

from streamlink_fl import main

if __name__ == "__main__":
    main()
