"""`python -m tdt`: the command line."""

from tdt.cli import main

if __name__ == "__main__":
    main()
