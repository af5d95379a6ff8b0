#!/usr/bin/env python3
"""Runs rma_reset.pml through spin (spin.py): a signal's slot that its user resets, and mistakes in it.

Usage: rma_reset_test.py [--cc COMPILER] [--only WORD]    (WORD: part of a configuration's name, or a mutation's number)
"""
import sys
from pathlib import Path

import spin

MODEL = Path(__file__).with_name("rma_reset.pml")

# name: (macros, seek cycles)
CONFIGURATIONS = {
    "the target knows": ("", False),
    "the target knows, a polite user": ("-DPOLITE", False),
    "the target says that it cannot know, a polite user": ("-DLOUD -DPOLITE", False),
}

# number in the model: (macros, the mistake)
MUTATIONS = {
    1: ("-DPOLITE", "an unchanged slot means that the add was not executed"),
    2: ("-DLOUD -DPOLITE", "a changed slot means executed, although the user may reset it at any time"),
}

if __name__ == "__main__":
    sys.exit(spin.check(MODEL, CONFIGURATIONS, MUTATIONS))
