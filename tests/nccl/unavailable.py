"""Why the tests under NCCL cannot run on this machine."""
import sys

SKIPPED = 77  # SKIP_RETURN_CODE of the tests


class Unavailable(Exception):
    """Something is missing here that is no fault of Railwise: the network, a package. Programs print the text and end with SKIPPED."""


class Broken(Exception):
    """Something is here and does not work. Programs print the text and end with 1."""


def exit_status(name, main):
    """What main() returns, or the status of the exception that it raises, whose text is printed."""
    try:
        return main()
    except Unavailable as error:
        print(f"{name}: skipped: {error}")
        return SKIPPED
    except Broken as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
