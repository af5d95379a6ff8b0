#!/usr/bin/env python3
"""Runs resumer.pml through spin (spin.py): how a side channel is resumed over new TCP connections, and mistakes in it.

Usage: resumer_test.py [--cc COMPILER] [--only WORD]    (WORD: part of a configuration's name, or a mutation's number)
"""
import sys
from pathlib import Path

import spin

MODEL = Path(__file__).with_name("resumer.pml")

# name: (macros, seek cycles)
CONFIGURATIONS = {
    "breaks": ("-DN=2 -DBREAKS=2 -DDOUBTS=0", False),
    "calls overtake each other": ("-DN=1 -DBREAKS=0 -DDOUBTS=2", False),
    "breaks and doubts": ("-DN=2 -DBREAKS=1 -DDOUBTS=1", False),
}

USUAL = "-DN=2 -DBREAKS=2 -DDOUBTS=1"
# number in the model: (macros, the mistake)
MUTATIONS = {
    1: (USUAL, "frames that were under way are not sent again"),
    2: (USUAL, "an end expects what it has heard by now, not what it has told the other"),
    3: (USUAL, "a frame is forgotten when the socket has it"),
    4: (USUAL, "an end counts frames that have not come"),
    5: (USUAL, "the called end expects what it has heard when the proof comes, not what it has answered"),
    6: (USUAL, "an old call resumes the channel although the other has told of more frames since"),
}

# Statements that are one for both ends in the model, and whose other end does this.
NEVER = {
    "due[0] = (due[0]+1)": "A resumes when it has told what it has heard, so nothing comes to it twice",
    "base[1] = flushed[1]": "and B knows what A has heard",
}

if __name__ == "__main__":
    sys.exit(spin.check(MODEL, CONFIGURATIONS, MUTATIONS, never=NEVER))
