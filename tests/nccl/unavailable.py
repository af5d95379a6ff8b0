"""Why the tests under NCCL cannot run on this machine."""

SKIPPED = 77  # SKIP_RETURN_CODE of the tests


class Unavailable(Exception):
    """Something is missing here that is no fault of Railwise: the network, a package. Programs print the text and end with SKIPPED."""


class Broken(Exception):
    """Something is here and does not work. Programs print the text and end with 1."""
