/* Failover of one connection: S (sender) sends messages 1..N to R (receiver) over RDMA; when queue pairs fail, both go to
 * the next epoch with new ones, and what had not arrived is sent again. failover_test.py runs this exhaustively with spin.
 *
 * Two parts, as in src/net. Messages (Sender, Receiver: what is sent, what is complete) know nothing of frames, fences and
 * offers; the floor of paths (Chooser at S, Answerer at R: leave, fence, drain, words, offer, propose, accept, begin) knows
 * nothing of messages. They meet at the hooks of paths/link_user.h, which are the inlines sOn..., rOn..., and at what the
 * floor shows of itself: S_RUNS, S_LEAVES, S_EPOCH, R_RUNS, R_EPOCH.
 *
 * Modelled: every interleaving of
 *   - the data plane: each part's write in flight, landed, its completion polled by R or not, its acknowledgement seen by S or
 *     not; writes on the way when S breaks still land while R's queue pairs live; parts overtake each other (lanes);
 *     clear-to-send entries; message 1 is two parts, so message 2 may be done before it;
 *   - failures at either end in any state (FAILURES in all; what they bring about at the other end is not counted),
 *     failing back (a failure without a reason) and R's changes of usable rails among them;
 *   - the side channel as two FIFOs, the threads that read it at once, and user threads that are polled only while they
 *     have requests outstanding. LAZY: users may make their next call only after everything has come to rest;
 *   - with FENCE, the time between the wish to stop queue pairs and the proof that they are dead. Meanwhile the driver may
 *     refuse any number of times (a refusal changes nothing, so it is no step), and what is on its way still lands: data at R,
 *     and a clear-to-send at S, which may also lie in a switch for as long as it likes. R always waits for the proof. S waits
 *     too, or, when R has left, goes on with another window (its driver is silent or refuses). Old queue pairs keep their
 *     window until they are destroyed, and an end that closes or fails leaves some;
 *   - time only as Promela's timeout: when nothing else can happen, a lazy user calls or a recovery's 60 s are over.
 * Checked: a write lands only in an open receive of its number, once, from a buffer that S's user has not got back; S completes
 * a send only when R's memory has all of it, and, when it is told so by a frame, after its own queue pairs are lost; entries
 * are used in the epoch they were made in and for the send they belong to; R completes a receive only with all of its data;
 * words are told and taken, and an epoch begins, only with the proofs; nothing lands in a window that was given back.
 * At rest everything has completed (with PARTITION, LOSS or ABORT: or an end that has something open has failed). That it comes
 * to rest is the absence of non-progress cycles: no step is marked as progress, so the state graph has no cycle at all.
 * Not modelled: tests/model/README.md has the list.
 *
 * Macros: N, WINDOW, FAILURES; LAZY, FENCE (above); CLOSE: ends close when they are done; ABORT: at any time; PARTITION: the
 * ends may lose each other for good; LOSS: completions that R's device has acknowledged are lost, with the device or (FENCE)
 * with a queue pair that R destroys because its stop is refused; RAILS: R's rails change while its offer is out. One offer at
 * a time is unheard, and a change waits for its turn.
 *
 * By hand:  spin -a -DFAILURES=2 failover.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan -m100000      (-DMUTATION=n: must fail)
 *           without -DSAFETY but with -DNP, ./pan -l: cycles.  After an error: spin -t -p -g -DFAILURES=2 failover.pml
 */
#ifndef N
#define N 3                     /* messages, at most 4 */
#endif
#ifndef WINDOW
#define WINDOW 2                /* receives open at a time */
#endif
#ifndef FAILURES
#define FAILURES 2
#endif
#ifndef MUTATION
#define MUTATION 0              /* a mistake, see failover_test.py */
#endif
#ifndef FRAMES
#define FRAMES 8                /* room of a FIFO; never full (asserted) */
#endif

#define BIT(k) (1 << ((k) - 1))                         /* message k in a mask of messages */
#define UPTO(n) ((1 << (n)) - 1)                        /* messages 1..n */
#define PARTS(k) ((k) == 1 -> 3 : 1 << (k))             /* message k in a mask of parts: two parts, one, one ... */
#define HAS(mask, some) (((mask) & (some)) == (some))
#define PREFIX(m) (!((m) & 1) -> 0 : (!((m) & 2) -> 1 : (!((m) & 4) -> 2 : (!((m) & 8) -> 3 : 4))))

/* ==== what both parts know ==== */

mtype = { Running, Breaking, Broken, Settled, Connecting, Failed, Closed };     /* states; Settled is S's only */
mtype = { Break, Reconcile, Arrived, Propose, Waiting, Accept, Ready, Close };  /* frames */
#define LIVE(state) (state != Failed && state != Closed)

byte failures = FAILURES;
#ifdef LAZY
byte prompt_sends, prompt_receives;     /* so many calls come at any time, the others only at rest */
#else
#define prompt_sends N
#define prompt_receives N
#endif

/* The floor's state that messages see, through the macros here. */
mtype sState = Running, rState = Running;
byte sPairs = 1, rPairs = 1;            /* epoch of the queue pairs that this end uses, 0: none. R's live until the proof */
#define S_RUNS (sState == Running)
#define R_RUNS (rState == Running)
#define S_EPOCH sPairs
#define R_EPOCH rPairs
#define S_LEAVES (sState == Breaking)

/* User threads are polled only while requests are outstanding, and drive the floor then. */
#define S_POLLED (LIVE(sState) && S_OPEN)
#define R_POLLED (LIVE(rState) && R_OPEN)

/* ==== messages: their state, and the hooks of paths/link_user.h ==== */

byte issued, sDone, sPosted;            /* sends: number issued; masks: complete, posted in this epoch */
byte acked;                             /* parts whose acknowledgement S's device has */
byte entry = 1, ring[N + 1];            /* next receive to match; epoch of the clear-to-send entries there */
byte ringArrived;                       /* what the entries say has arrived */

byte opened, rDone, entries;            /* receives: number opened; mask complete; entries written in this epoch */
byte flying, landed, got, memory;       /* parts: in flight to R's queue pairs, completion not polled, counted, in R's memory */

/* isOpen(); and that nothing will be open any more */
#define S_OPEN (sDone != UPTO(issued))
#define R_OPEN (rDone != UPTO(opened))
#define S_FINISHED (sDone == UPTO(N))
#define R_FINISHED (rDone == UPTO(N))
/* words(): all that R has; and the number that a frame outside a recovery tells */
#define R_WORDS rDone
#define R_NEWS PREFIX(rDone)

/* irecv finds room. */
#define MAY_OPEN (opened < N && opened - PREFIX(rDone) < WINDOW)

/* ---- of S ---- */

inline sCompletes(those) {
  for (k : 1 .. N) { if :: (those) & BIT(k) -> assert(HAS(memory, PARTS(k))) :: else fi }
  k = 0;
  sDone = sDone | those
}

/* onFenced(): what is left in the completion queues was lost, the ring is zero (or another one). */
inline sOnFenced() {
  sPosted = 0;
#if MUTATION != 7
  acked = 0;
#endif
  ringArrived = 0;
#if MUTATION != 8
  for (k : 1 .. N) { ring[k] = 0 }
  k = 0
#endif
}

/* onNews(): sends whose receives are complete by a frame. */
inline sOnNews(those) {
  assert(S_EPOCH == 0);
  sCompletes(those)
}

/* Did a device take messages with it that it has acknowledged? */
#define S_LOST(words) (!HAS(words, sDone))

/* reconcile(), when nothing is lost */
inline sReconcile(words) {
#if MUTATION == 9
  sOnNews(UPTO(PREFIX(words)));
#else
  sOnNews(words);
#endif
#if MUTATION != 16
  entry = PREFIX(words) + 1
#endif
}

/* ---- of R ---- */

/* poll(): what has landed counts. */
inline rPoll() {
  got = got | landed; landed = 0;
  for (k : 1 .. N) {
    if
    :: HAS(got, PARTS(k)) && !(rDone & BIT(k)) ->
      assert(HAS(memory, PARTS(k)));
      rDone = rDone | BIT(k)
    :: else
    fi;
    if :: rDone & BIT(k) -> got = got & ~PARTS(k) :: else fi
  }
  k = 0
}

/* onFenced(): all parts of open receives will come again. */
inline rOnFenced() {
#if MUTATION != 6
  got = 0;
#endif
#if MUTATION != 17
  entries = 0
#endif
}

/* onBegun() */
inline rOnBegun() {
#if MUTATION != 17 && MUTATION != 12
  entries = PREFIX(rDone)
#else
  skip
#endif
}

/* ==== the floor of paths ==== */

chan toR = [FRAMES] of { mtype, byte };                 /* frame, epoch */
chan rBox = [FRAMES] of { mtype, byte };                /* read by R's service thread, not yet by its user thread */
chan toS = [FRAMES] of { mtype, byte, byte, bool };     /* frame, epoch, words or news, R is open */
#ifdef LOSS
chan sBox = [FRAMES] of { mtype, byte, byte, bool };
byte unread, unreadMask;                /* newest Reconcile that S's user thread has not handled */
#else
#define sBox toS
#endif

byte sTarget = 1, rTarget = 1;          /* highest epoch known */
bool connected = true;                  /* false: no pair of rails reaches the other end any more */
bool peerOpen, waitingSaid;             /* Reconcile said that R has open receives; Waiting was sent */
byte rNext;                             /* number to which R is breaking */
byte heard;                             /* last epoch for which S said that it has unfinished sends */
byte asked, answered;                   /* Break that R has not reconciled yet, 0: none; what the last Arrived said */
#if MUTATION == 35
byte early;                             /* words */
#endif
#ifdef RAILS
bool unheard, stale;                    /* the last offer is not heard yet; its rails are not R's any more */
#define OFFER_GOOD !stale
#else
#define OFFER_GOOD true
#endif

/* The fence. Without FENCE the first stop is the proof. */
#ifdef FENCE
byte sOld;                              /* S leaves this epoch and has no proof yet, 0: it has */
byte sRemains; bool sKept;              /* epoch of queue pairs that S has given away and that live; they have their window */
byte offer, offerWords; bool offerOpen; /* Reconcile that waits for S's fence */
byte late, lateEpoch;                   /* a clear-to-send in a switch: its receive (0: none), its queue pairs' epoch */
bool rKept = true;                      /* R's window is R's, or its old queue pairs' */
#define S_FENCED (sOld == 0)
#if MUTATION == 31
#define R_FENCED true                   /* a refusal counts as the proof */
#else
#define R_FENCED (rPairs == 0)
#endif
#define S_LIVES(pairs) (sPairs == pairs || sOld == pairs || sRemains == pairs)
#if defined(LOSS)
bool away;                              /* R destroys what it cannot stop: completions go with it */
#endif
#else
#define S_FENCED true
#define R_FENCED true
#define S_LIVES(pairs) (sPairs == pairs)
#endif

inline sayR(frame, x) { if :: LIVE(rState) -> assert(nfull(toR)); toR!frame,x :: else fi }
inline sayS(frame, x, mask, open) { if :: LIVE(sState) -> assert(nfull(toS)); toS!frame,x,mask,open :: else fi }

/* ---- chooser ---- */

/* Queue pairs that live and are S's no more keep their window. (One set of them: another failure waits for the proof.) */
#ifdef FENCE
inline sGivesAway(pairs) {
  if :: sRemains == 0 && pairs -> sRemains = pairs; sKept = true :: else fi
}
#endif

/* The end of a break. */
inline sBreak() {
  sPairs = 0;
#ifdef FENCE
  sOld = 0;
#endif
  sOnFenced();
  peerOpen = false; waitingSaid = false;
  sState = Broken
}

/* The end: no fence, for there is no next epoch. */
inline sEnds(state) {
#ifdef FENCE
  if :: sOld -> sGivesAway(sOld) :: else -> sGivesAway(sPairs) fi;
  offer = 0; offerWords = 0; offerOpen = false;
#endif
  sBreak(); sState = state
}

/* The epoch is lost: from now on nothing is polled. */
inline sStops() {
#ifdef FENCE
  sOld = sPairs;
#endif
  sPairs = 0; sState = Breaking
}

/* S sees a failure. It says so at once, and waits until its queue pairs are stopped or R has left. */
inline sFails() {
  sTarget++;
  assert(sTarget <= rTarget + 1);
  sayR(Break, sTarget);
#if MUTATION == 5
  sState = Broken
#else
  sStops()
#endif
}

inline sGivesUp() { sEnds(Failed); sayR(Close, 0) }

/* R's words, in Broken. */
inline sHasWords(x, words, open) {
#ifdef LOSS
  if :: x == unread -> unread = 0; unreadMask = 0 :: else fi;
#endif
  assert(S_FENCED && R_FENCED);
  sTarget = x;
  if
  :: S_LOST(words) ->                   /* lost with the device that acknowledged it */
#ifdef LOSS
    sGivesUp()
#else
    assert(false)
#endif
  :: else ->
    sReconcile(words);
    peerOpen = open;
    sState = Settled
  fi
#ifdef FENCE
  ; offer = 0; offerWords = 0; offerOpen = false
#endif
}

inline sOnReconcile(x, words, open) {
  assert(x >= sTarget);                 /* each Reconcile is read before S leaves Broken */
#if MUTATION == 2
  sOnNews(words);
#endif
#ifdef FENCE
  if
  :: sPairs -> sStops()
  :: else
  fi;
#endif
  if
#ifdef FENCE
  :: !S_FENCED -> offer = x; offerWords = words; offerOpen = open
#endif
  :: else ->
    if
    :: x > sTarget || sState == Breaking -> sBreak()
    :: else ->
      assert(sState == Broken);
#if MUTATION == 5
      sBreak()
#endif
    fi;
    sHasWords(x, words, open)
  fi
}

active proctype Chooser() {
  mtype frame; byte x, mask, k; bool open;
end:
  do
  /* Failures: its own, and that its queue pairs have no other half any more. */
  :: atomic { S_POLLED && (sState == Running || sState == Connecting) && failures -> failures--; sFails() }
  :: atomic { S_POLLED && sState == Running && (rPairs != sPairs || !connected) && (rTarget > sTarget || !connected) -> sFails() }
  :: atomic { S_POLLED && sState == Breaking && S_FENCED ->
      sBreak();
#ifdef FENCE
      if
      :: offer -> sHasWords(offer, offerWords, offerOpen)
      :: else
      fi
#endif
    }
#ifdef FENCE
  /* The proof. */
  :: atomic { sOld -> if :: lateEpoch == sOld -> late = 0; lateEpoch = 0 :: else fi; sOld = 0 }
  /* Without: its driver refuses or is silent, and R has left. A new window, if there is one. */
#if MUTATION == 32
  :: atomic { S_POLLED && sState == Breaking && !S_FENCED && sRemains == 0 ->
#else
  :: atomic { S_POLLED && sState == Breaking && !S_FENCED && sRemains == 0 && offer >= sTarget ->
#endif
      sGivesAway(sOld); sOld = 0 }
  /* What was given away is destroyed, and its window is free. */
  :: atomic { sRemains -> if :: lateEpoch == sRemains -> late = 0; lateEpoch = 0 :: else fi; sRemains = 0; sKept = false }
#if MUTATION == 33
  :: atomic { sRemains && sKept -> sKept = false }
#endif
#endif
  /* Propose, or say that there is nothing to propose. */
  :: atomic { S_POLLED && sState == Settled && connected && OFFER_GOOD -> sayR(Propose, sTarget); sState = Connecting }
#ifdef PARTITION
  :: atomic { S_POLLED && sState == Settled && !connected && !waitingSaid && MUTATION != 21 ->
      sayR(Waiting, sTarget); waitingSaid = true }
#endif
  :: atomic { S_POLLED && nempty(sBox) -> sBox?frame,x,mask,open;
      if
      :: frame == Arrived -> sOnNews(mask)
#if MUTATION == 37
      :: frame == Reconcile ->
        do :: sBox??[Reconcile,_,_,_] -> sBox??Reconcile,_,_,_ :: else -> break od;
        sOnReconcile(x, mask, open)
#else
      :: frame == Reconcile -> sOnReconcile(x, mask, open)
      :: frame == Reconcile && sBox??[Reconcile,_,_,_] -> skip        /* a mailbox may keep the newest only */
#endif
      :: frame == Accept ->
        if
#if MUTATION == 3
        :: true ->
#else
        :: x == sTarget ->
          assert(sState == Connecting);
#endif
          assert(S_FENCED);
          sPairs = x; sState = Running; sayR(Ready, x)
        :: else -> assert(sState == Broken || sState == Breaking)
        fi
      :: frame == Close ->
#if MUTATION == 27
        sOnNews(mask);
#endif
        sEnds(Failed);
#if MUTATION != 18
        sOnNews(mask);
#endif
        if :: S_FINISHED -> sState = Closed :: else fi
      fi;
      frame = 0; x = 0; mask = 0; open = 0 }
#ifdef CLOSE
  :: atomic { LIVE(sState) && S_FINISHED -> sEnds(Closed); sayR(Close, 0) }
#endif
#ifdef ABORT
  :: atomic { LIVE(sState) -> sGivesUp() }
#endif
  od
}

#ifdef LOSS
/* S's service thread: what was reported complete and is not in a Reconcile is lost, also when nobody polls S. Looks again until
 * the user thread has handled the Reconcile: it may see the acknowledgement after the Reconcile came. */
active proctype ChooserService() {
  mtype frame; byte x, mask, k; bool open;
end:
  do
  :: atomic { toS?frame,x,mask,open ->
      if :: frame == Reconcile -> unread = x; unreadMask = mask :: else fi;
      assert(nfull(sBox));
      sBox!frame,x,mask,open;
      frame = 0; x = 0; mask = 0; open = 0 }
  :: atomic { unread && S_LOST(unreadMask) && LIVE(sState) && MUTATION != 22 -> unread = 0; unreadMask = 0; sGivesUp() }
  od
}
#endif

/* ---- answerer ---- */

/* Queue pairs to ERR: what is in flight dies. */
inline rStops() {
  rPairs = 0;
#if MUTATION != 29
  flying = 0
#endif
}

/* The epoch is lost. */
inline rFails(number) {
  rNext = number;
#if MUTATION == 35
  early = R_WORDS;
#endif
#if MUTATION == 1
  rBreak()
#else
#ifndef FENCE
  rStops();
#endif
  rState = Breaking
#endif
}

/* The end of a break: drained, queue pairs destroyed. */
inline rBreak() {
  rTarget = rNext; rNext = 0; rState = Broken;
  if :: rTarget >= asked -> asked = 0; answered = 0 :: else fi;
#if MUTATION == 1
  sayS(Reconcile, rTarget, R_WORDS, R_OPEN);
#elif MUTATION != 4
  rPoll();
#endif
  rOnFenced();
#if MUTATION == 35
  sayS(Reconcile, rTarget, early, R_OPEN); early = 0
#elif MUTATION != 1
  sayS(Reconcile, rTarget, R_WORDS, R_OPEN)
#endif
#ifdef RAILS
  ; unheard = true; stale = false
#endif
}

/* The end: no fence. */
inline rEnds(state) {
#ifdef FENCE
  if
  :: true -> rStops()
  :: rPairs -> skip                     /* they live on, with R's window */
  fi;
#else
  rStops();
#endif
  rState = state
}

inline rGivesUp() {
  rPoll(); rEnds(Failed);
  sayS(Close, 0, UPTO(R_NEWS), false)
}

active proctype Answerer() {
  mtype frame; byte x, k;
end:
  do
  :: atomic { R_POLLED && failures && rState != Breaking ->
      failures--;
#ifdef LOSS
      /* The device takes completions with it: all, of some lanes, none. */
      if :: landed = 0 :: landed = landed & 5 :: landed = landed & 10 :: skip fi;
#endif
#if MUTATION == 25
      if :: rState == Broken -> rFails(rTarget) :: else -> rFails(rTarget + 1) fi }
#else
      rFails(rTarget + 1) }
#endif
#ifdef RAILS
  /* Other rails, which make the offer worthless. They are offered when the last offer is heard. */
  #if MUTATION == 38
  :: atomic { R_POLLED && failures && rState == Broken && !stale ->
      failures--; stale = true;
      if :: !unheard -> rFails(rTarget + 1) :: else fi }
#else
  :: atomic { R_POLLED && failures && rState == Broken && !stale -> failures--; stale = true }
  :: atomic { R_POLLED && rState == Broken && stale && !unheard -> rFails(rTarget + 1) }
#endif
#endif
#ifdef FENCE
  /* The proof: by the stop, or, once R has ended, by the destruction. */
#if MUTATION == 31
  :: atomic { rPairs && rState == Broken -> rStops() }
#endif
  :: atomic { rPairs && (rState == Breaking || !LIVE(rState)) ->
      rStops();
#ifdef LOSS
      away = false
#endif
    }
#if MUTATION == 34
  :: atomic { rPairs && !LIVE(rState) && rKept -> rKept = false }
#endif
#ifdef LOSS
  /* It is refused for too long: what was delivered is taken, and the queue pairs are destroyed, once that works. */
  :: atomic { R_POLLED && rPairs && rState == Breaking && !away -> rPoll(); away = true }
#endif
  :: atomic { R_POLLED && rState == Breaking && R_FENCED -> rBreak() }
#else
  :: atomic { R_POLLED && rState == Breaking -> rBreak() }
#endif
  :: atomic { R_POLLED && rState == Running && (sPairs != rPairs || !connected) && (sTarget > rTarget || !connected) ->
      rFails(rTarget + 1) }
#if MUTATION == 1
  :: atomic { rState == Broken && rPairs -> rPoll(); rPairs = 0; flying = 0; got = 0 }
#endif
  :: atomic { R_POLLED && rState != Breaking && nempty(rBox) -> rBox?frame,x;
      if
      :: frame == Break ->
#if MUTATION == 11
        if :: x > rTarget && rState == Running -> rFails(x) :: else fi
#else
        if :: x > rTarget -> rFails(x) :: else fi
#endif
      :: frame == Waiting -> heard = x
      :: frame == Propose ->
        heard = x;
        if
#if MUTATION == 13
        :: rState == Broken ->
#else
        :: x == rTarget ->
          assert(rState == Broken);
#endif
          assert(R_FENCED && S_FENCED);
          rPairs = x; rState = Connecting; sayS(Accept, x, 0, false)
#if MUTATION == 12
          ; rState = Running; entries = PREFIX(rDone)
#endif
        :: else -> assert(rState == Broken)
        fi
      :: frame == Ready ->
        if
#if MUTATION == 14
        :: true ->
#else
        :: x == rTarget ->
          assert(rState == Connecting || MUTATION == 12);
#endif
          rState = Running;
          rOnBegun()
        :: else -> assert(rState == Broken)
        fi
      :: frame == Close ->
#if MUTATION != 19
        rPoll();
#endif
        if :: R_FINISHED -> rEnds(Closed) :: else -> rEnds(Failed) fi
      fi;
      frame = 0; x = 0 }
#ifdef CLOSE
  :: atomic { LIVE(rState) && R_FINISHED -> rEnds(Closed); sayS(Close, 0, R_WORDS, false) }
#endif
#ifdef ABORT
  :: atomic { LIVE(rState) -> rGivesUp() }
#endif
  od
}

/* R's service thread reads at once, and answers Break from memory; again when more arrives while R has not reconciled it. */
active proctype AnswererService() {
  mtype frame; byte x;
end:
  do
  :: atomic { toR?frame,x ->
      if
      :: frame == Break && MUTATION != 15 ->
#if MUTATION == 28
        sayS(Arrived, 0, (rDone & 2 -> 3 : rDone & 1), false);
#else
        sayS(Arrived, 0, UPTO(R_NEWS), false);
#endif
        if :: x > rTarget -> asked = x; answered = R_NEWS :: else fi
      :: else
      fi;
      assert(nfull(rBox));
      rBox!frame,x;
      frame = 0; x = 0 }
  /* The user thread may poll what completes the last open receive, and be idle, before it looks for frames. */
  :: atomic { asked && answered < R_NEWS && MUTATION != 24 ->
      answered = R_NEWS;
      sayS(Arrived, 0, UPTO(answered), false) }
#ifdef RAILS
  /* S's service thread has the offer in its inbox, and answers. */
  :: atomic { unheard -> unheard = false }
#endif
  od
}

/* ==== messages: what goes over the paths ==== */

/* A clear-to-send comes to S by queue pairs of an epoch: into their window. */
inline entryLands(receive, pairs) {
#ifdef FENCE
  if
#if MUTATION != 32 && MUTATION != 36
  :: sRemains == pairs -> assert(sKept)                 /* the old one */
#endif
  :: else -> ring[receive] = pairs
  fi
#else
  ring[receive] = pairs
#endif
}

#define ACKED(k) (sPosted & ~sDone & BIT(k) && HAS(acked, PARTS(k)))

active proctype Sender() {
  byte k;
end:
  do
  :: atomic { issued < prompt_sends && LIVE(sState) -> issued++ }
  :: atomic { S_POLLED && S_RUNS && entry <= N && ring[entry] != 0 && (sDone & BIT(entry) || entry <= issued) ->
      assert(ring[entry] == S_EPOCH);
      if
#if MUTATION != 10
      :: sDone & BIT(entry) -> skip     /* done out of order in an epoch before */
#endif
      :: else ->
        k = 1;
        do :: (sDone | sPosted) & BIT(k) -> k++ :: else -> break od;
        assert(k == entry);             /* the send that belongs to this receive */
        sPosted = sPosted | BIT(k);
        if :: R_EPOCH == S_EPOCH -> flying = flying | PARTS(k) :: else -> skip /* to nobody */ fi;
#if MUTATION == 26
        acked = acked | PARTS(k);
#endif
        k = 0
      fi;
      entry++ }
  :: atomic { S_POLLED && S_EPOCH && (ACKED(1) || ACKED(2) || ACKED(3) || ACKED(4)) ->
      for (k : 1 .. N) {
        if :: ACKED(k) -> assert(HAS(memory, PARTS(k))); sDone = sDone | BIT(k) :: else fi
      }
      k = 0 }
  :: atomic { S_POLLED && (S_EPOCH || S_LEAVES) && UPTO(ringArrived) & ~sDone -> sCompletes(UPTO(ringArrived)) }
  od
}

active proctype Receiver() {
  byte k;
end:
  do
  :: atomic { MAY_OPEN && opened < prompt_receives && LIVE(rState) -> opened++ }
  :: atomic { R_POLLED && R_RUNS && entries < opened ->         /* clear to send, also for those done out of order */
      entries++;
      if
      :: S_LIVES(R_EPOCH) -> entryLands(entries, R_EPOCH); ringArrived = PREFIX(rDone)
#ifdef FENCE
      :: S_LIVES(R_EPOCH) && !late -> late = entries; lateEpoch = R_EPOCH
#endif
      :: else -> skip
      fi }
#if MUTATION == 4
  :: atomic { R_POLLED && R_EPOCH && landed -> rPoll() }
#else
  :: atomic { R_POLLED && landed -> rPoll() }
#endif
  od
}

/* ==== the network ==== */

#ifdef FENCE
#define KEPT rKept
#else
#define KEPT true
#endif
#if defined(FENCE) && defined(LOSS)
#define TAKE(part) if :: away -> skip :: else -> landed = landed | part fi
#else
#define TAKE(part) landed = landed | part
#endif

#define LAND(part, k) atomic { flying & part && (MUTATION != 29 || rPairs) -> \
  assert(KEPT); \
  assert(k <= opened && !(rDone & BIT(k)));     /* an open receive of this number */ \
  assert(!((landed | got) & part));             /* once in an epoch */ \
  assert(!(sDone & BIT(k)));                    /* from a buffer that is still the message's */ \
  flying = flying & ~part; TAKE(part); memory = memory | part; \
  if :: sPairs && sPairs == rPairs -> acked = acked | part :: else fi }

active proctype Network() {
end:
  do
  :: LAND(1, 1)
  :: LAND(2, 1)
  :: LAND(4, 2)
#if N > 2
  :: LAND(8, 3)
#endif
#if N > 3
  :: LAND(16, 4)
#endif
#ifdef FENCE
  :: atomic { late ->
      if :: S_LIVES(lateEpoch) -> entryLands(late, lateEpoch) :: else -> skip fi;
      late = 0; lateEpoch = 0 }
#endif
#ifdef PARTITION
  :: atomic { connected -> connected = false }
#if MUTATION == 30
  :: atomic { !connected -> connected = true }
#else
  :: atomic { !connected && failures -> failures--; connected = true }
#endif
#endif
  od
}

/* Does an end know that the peer has requests outstanding, too, so that its silence is not idleness? */
#if MUTATION == 20
#define S_WAITED (S_POLLED && (sState == Settled || sState == Connecting))
#else
#define S_WAITED (S_POLLED && (sState == Settled || sState == Connecting) && peerOpen)
#endif
#if MUTATION == 23
#define R_WAITED (R_POLLED && (rState == Broken || rState == Connecting) && sTarget == rTarget)
#else
#define R_WAITED (R_POLLED && (rState == Broken || rState == Connecting) && heard == rTarget)
#endif

/* Nothing else can happen: time passes. */
active proctype Clock() {
  byte k;
#ifdef LAZY
  atomic { select (prompt_sends : 0 .. N); select (prompt_receives : 0 .. N) }
#endif
end:
  do
  :: atomic { timeout ->
      if
#ifdef LAZY
      :: issued < N && LIVE(sState) -> issued++
      :: MAY_OPEN && LIVE(rState) -> opened++
#endif
      :: S_WAITED -> assert(!connected); sGivesUp()
      :: R_WAITED -> assert(!connected); rGivesUp()
      :: else ->
        if
        :: sDone == UPTO(N) && rDone == UPTO(N) -> assert(memory == (1 << (N + 1)) - 1)
#if defined(PARTITION) || defined(LOSS) || defined(ABORT)
        :: (sState == Failed || sDone == UPTO(N)) && (rState == Failed || rDone == UPTO(N)) -> skip
#endif
        :: else -> assert(false)        /* a hang, or a failure without a cause */
        fi;
        break
      fi }
  od
}
