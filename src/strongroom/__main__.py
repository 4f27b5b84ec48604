"""`python -m strongroom` is the `strongroom` command."""

from strongroom.cli import main

if __name__ == "__main__":
    main()
