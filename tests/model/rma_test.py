#!/usr/bin/env python3
"""Runs rma.pml through spin (spin.py): one-sided communication in which the target applies numbered signals, and mistakes
in it, each with writes placed in order and in any order.

Usage: rma_test.py [--cc COMPILER] [--only WORD] [--all]    (WORD: part of a configuration's name, or a mutation's number;
--all: the searches of minutes and gigabytes too)
"""
import sys
from pathlib import Path

import spin

MODEL = Path(__file__).with_name("rma.pml")

ONE = "-DW=1 -DN=3"
TWO = "-DW=2 -DN=2"  # writers that add to one slot: 2 operations and 1
# name: (macros, seek cycles)
CONFIGURATIONS = {
    "failures at both ends": (f"{ONE} -DFAILURES=2", False),
    "comes to rest": (f"{ONE} -DFAILURES=1", True),
    "more failures": (f"{ONE} -DFAILURES=3 -DLOCALFAILURES=2", False),
    "writes in any order": (f"{ONE} -DFAILURES=1 -DOOO", False),
    "writes in any order come to rest": ("-DW=1 -DN=2 -DFAILURES=1 -DOOO", True),
    "two writers": (f"{TWO} -DFAILURES=1", False),
}
LARGER = {
    "comes to rest after more failures": (f"{ONE} -DFAILURES=2", True),
    "two writers, more failures": (f"{TWO} -DFAILURES=2", False),
    "writes in any order, two failures": (f"{ONE} -DFAILURES=2 -DOOO", False),
    "writes in any order come to rest after two failures": ("-DW=1 -DN=2 -DFAILURES=2 -DOOO", True),
    "writes in any order, more failures": (f"{ONE} -DFAILURES=3 -DOOO", False),
    "two writers, writes in any order": (f"{TWO} -DFAILURES=2 -DOOO", False),
}

USUAL = f"{ONE} -DFAILURES=2"
# number in the model: (macros, the mistake)
MUTATIONS = {
    1: (USUAL, "the target reconciles before it stops its queue pairs"),
    2: (USUAL, "the writer repeats what the Reconcile says is applied"),
    3: (USUAL, "a signal does not wait for the marks of other rails"),
    4: (USUAL, "a signal does not flush the other rail that carried its data"),
    5: (USUAL, "a request is done as soon as its own parts are acknowledged"),
    6: (USUAL, "the target reconciles before it has polled what is completed"),
    7: (USUAL, "the loopback write is repeated while the first may still be under way"),
    8: (USUAL, "plain puts that are done are repeated"),
    9: (USUAL, "marks of an old epoch count in the new one"),
    10: (USUAL, "the Reconcile says one signal too few"),
    11: (USUAL, "rails that are left are not flushed"),
}

if __name__ == "__main__":
    sys.exit(spin.check(MODEL, CONFIGURATIONS, MUTATIONS, larger=LARGER, variants=("", "-DOOO")))
