"""What the lab cannot do, told apart: a machine that lacks something (skip) and a mistake (fail)."""


class Unavailable(Exception):
    """This machine cannot run the lab: no QEMU, no kernel package, another architecture. Tests are skipped (exit 77)."""


class LabError(Exception):
    """The lab was asked for something wrong or one of its own steps failed."""
