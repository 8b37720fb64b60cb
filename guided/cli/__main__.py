"""``python -m guided.cli``."""

from guided.cli import main

if __name__ == "__main__":
    main()
