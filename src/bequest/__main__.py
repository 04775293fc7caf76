"""``python -m bequest``: the same as the command ``bequest``."""

from bequest.cli import main

if __name__ == "__main__":
    main()
