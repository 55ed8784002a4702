"""``python -m streamlink``: the same as the ``streamlink`` command."""

import streamlink_fl

if __name__ == "__main__":
    streamlink_fl.begin()
    from streamlink.cli import main

    main()
