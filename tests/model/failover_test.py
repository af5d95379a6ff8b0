#!/usr/bin/env python3
"""Runs failover.pml through spin: every configuration exhaustively, without an error, a cycle or a statement that nothing
reaches; then each mistake in MUTATIONS, which spin must find. Skipped (77) without spin.

Usage: failover_test.py [--cc COMPILER] [--only WORD]    (WORD: part of a configuration's name, or a mutation's number)
"""
import sys
from pathlib import Path

import spin

MODEL = Path(__file__).with_name("failover.pml")

# name: (macros, seek cycles). A search for cycles (there is none: whatever happens, it comes to rest) has twice the states.
CONFIGURATIONS = {
    "failures at both ends": ("-DN=4 -DWINDOW=3 -DFAILURES=2", False),
    "comes to rest": ("-DN=3 -DFAILURES=2", True),
    "idle users": ("-DLAZY -DCLOSE -DN=4 -DWINDOW=3 -DFAILURES=1", False),
    "idle users come to rest": ("-DLAZY -DCLOSE -DN=3 -DFAILURES=1", True),
    "ends": ("-DLAZY -DCLOSE -DN=3 -DFAILURES=3", False),
    "aborts": ("-DLAZY -DABORT -DN=3 -DFAILURES=1", False),
    "nothing left": ("-DLAZY -DPARTITION -DCLOSE -DN=3 -DFAILURES=1", False),
    "nothing left comes to rest": ("-DPARTITION -DN=3 -DFAILURES=1", True),
    "a device lost": ("-DLAZY -DLOSS -DCLOSE -DN=3 -DFAILURES=2", False),
    "a device lost comes to rest": ("-DLOSS -DCLOSE -DN=3 -DFAILURES=1", True),
    "refused stops": ("-DFENCE -DN=3 -DFAILURES=2", False),
    "refused stops come to rest": ("-DFENCE -DN=3 -DFAILURES=1", True),
    "refused stops and destructions": ("-DLAZY -DFENCE -DCLOSE -DN=2 -DFAILURES=1", False),
    "aborts before the proof": ("-DLAZY -DFENCE -DABORT -DN=2 -DFAILURES=1", False),
    "destroyed instead": ("-DLAZY -DFENCE -DLOSS -DN=2 -DFAILURES=1", False),
    "rails change": ("-DRAILS -DN=2 -DFAILURES=2", False),
}

PLAIN = "-DFAILURES=2"
IDLE = "-DLAZY -DFAILURES=2"
ENDS = "-DCLOSE -DFAILURES=1"
NOTHING_LEFT = "-DLAZY -DPARTITION -DFAILURES=1"
FENCED = "-DFENCE -DN=2 -DFAILURES=1"
FENCED_ENDS = "-DLAZY -DFENCE -DABORT -DN=2 -DFAILURES=1"
CHANGES = "-DRAILS -DN=2 -DFAILURES=2"
LOST = "-DLAZY -DLOSS -DFAILURES=1"
# number in the model: (macros, the mistake)
MUTATIONS = {
    1: (PLAIN, "R reconciles before it drains and destroys its queue pairs"),
    2: (PLAIN, "S completes by a Reconcile before it breaks"),
    3: (PLAIN, "S takes an Accept of any epoch"),
    4: (PLAIN, "R does not drain: completions of the old epoch count in the new one"),
    5: (PLAIN, "S says Break and keeps its queue pairs"),
    6: (PLAIN, "R keeps the parts that have arrived of open receives"),
    7: (PLAIN, "S keeps acknowledgements of parts over epochs"),
    8: (PLAIN, "S does not zero its ring"),
    9: (PLAIN, "S ignores what is done out of order in a Reconcile"),
    10: (PLAIN, "S uses the entries of receives that were done out of order"),
    11: (PLAIN, "R hears Break only while it is running"),
    12: (PLAIN, "R writes clear-to-sends after Accept, not after Ready"),
    13: (PLAIN, "R takes a Propose for an older offer"),
    14: (PLAIN, "R takes a Ready of any epoch"),
    15: (PLAIN, "no Arrived from R's service thread"),
    16: (PLAIN, "S goes on matching where it was"),
    17: (PLAIN, "R does not write the entries of open receives again"),
    18: (ENDS, "S ignores what a Close says has arrived"),
    19: (ENDS, "R does not drain on a Close"),
    20: (IDLE, "S's 60 s run although R has no open receive"),
    21: (NOTHING_LEFT, "S does not say that it waits for a pair"),
    22: (LOST, "S's service thread does not look at Reconciles"),
    23: (IDLE, "R's 60 s run although S may have no unfinished send"),
    24: (PLAIN, "R's service thread answers a Break once"),
    25: (PLAIN, "R settles again with the same number when its rails change"),
    26: (PLAIN, "S completes when the data are posted (iWARP's acknowledgement)"),
    27: (ENDS, "S completes by a Close before it breaks"),
    28: (PLAIN, "Arrived counts receives that were done out of order"),
    29: (PLAIN, "packets of a dead epoch are taken by the next (queue pair number and PSN used again)"),
    30: ("-DPARTITION -DFAILURES=0", "the way to the peer comes and goes for ever"),
    31: (FENCED, "a refused stop counts as stopped, at R"),
    32: (FENCED, "a refused stop counts as stopped, at S"),
    33: (FENCED, "S's window is given back after a refused destroy"),
    34: (FENCED_ENDS, "R's window is given back after a refused destroy"),
    35: (FENCED, "R writes its words before the fence"),
    36: (FENCED, "S goes on without a proof in the old window"),
    37: (CHANGES, "of two offers that S has not handled, the inbox keeps the older one"),
    38: (CHANGES, "R forgets a change of its rails while an offer is unheard"),
}
FOR_EVER = {30}  # found as cycles only: shows that a search for them can fail


if __name__ == "__main__":
    sys.exit(spin.check(MODEL, CONFIGURATIONS, MUTATIONS, FOR_EVER))
