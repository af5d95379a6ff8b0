/* A slot in GPU memory that its user may reset, without a mapping for the CPU. The target's NIC adds by a loopback
 * FETCH_AND_ADD, one outstanding for the slot. The NIC may fail with the add executed or not; the target then stops it
 * and must decide whether to add again. There are two signals of 1. The user waits for slot >= 1, takes the value, sets
 * the slot to 0 and waits again.
 *
 * Usually the target knows: by rq_psn of the NIC's own queue pair, or because its CPU adds itself. With LOUD it knows
 * the slot alone: a changed slot means executed, an unchanged one cannot be decided, and the connection ends loudly.
 * That is right for a polite user, who resets the slot only while nobody adds to it. */
#ifndef MUTATION
#define MUTATION 0
#endif
byte issued;                 /* signals that were ever tried */
byte sent, slot, before;     /* `before`: what the slot was before the add */
byte seen, failures = 1;     /* `seen`: the sum that the user has taken */
bool outstanding, executed, doubt, loud;

#if defined(POLITE) && MUTATION != 2
#define MAYRESET (seen + slot == issued)
#else
#define MAYRESET true
#endif

active proctype Target() {
end:
  do
  :: atomic { sent < 2 && !outstanding && !doubt && !loud ->
      outstanding = true; executed = false; sent++; if :: sent > issued -> issued = sent :: else fi }
  :: atomic { outstanding && !executed -> executed = true; before = slot; slot++ }
  :: atomic { outstanding && executed -> outstanding = false }
  /* the NIC fails */
  :: atomic { outstanding && failures -> failures--; outstanding = false; doubt = true; if :: !executed -> before = slot :: else fi }
  :: atomic { doubt -> doubt = false;
#if MUTATION == 1
      if :: slot == before -> sent-- :: else fi
#elif defined(LOUD)
      if :: slot == before -> loud = true :: else fi
#else
      if :: !executed -> sent-- :: else fi
#endif
    }
  od
}

active proctype User() {
end:
  do :: atomic { slot >= 1 && MAYRESET -> seen = seen + slot; slot = 0; assert(seen <= 2) } od
}

/* At rest both signals were seen, each once, or the target has said that it cannot know. */
active proctype Clock() {
end:
  do :: atomic { timeout -> assert(loud || seen == 2); break } od
}
