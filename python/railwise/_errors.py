"""The exception of this package."""


class Error(Exception):
    """What is wrong, where (file, line, device, variable), and what to do: the message of the library."""
