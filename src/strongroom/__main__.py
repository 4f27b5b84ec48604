"""The `strongroom` command, as `strongroom` and as `python -m strongroom`.

Nothing is imported before somebody can catch a Ctrl-C: loading a command takes longer than many of them run.
"""

import sys


def main() -> None:
    """Run the command line. Whenever Ctrl-C comes, no traceback does."""
    try:
        from strongroom.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("strongroom: interrupted; what was acknowledged is kept\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
