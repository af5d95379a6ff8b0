/* Failover of one connection: S (sender) sends messages 1..N to R (receiver) over RDMA; when queue pairs fail, both go to
 * the next epoch with new ones, and what had not arrived is sent again. failover_test.py runs this exhaustively with spin.
 *
 * Modelled: every interleaving of
 *   - the data plane: each part's write in flight, landed, its completion polled by R or not, its acknowledgement seen by S or
 *     not; writes on the way when S breaks still land while R's queue pairs live; parts overtake each other (lanes);
 *     clear-to-send entries; message 1 is two parts, so message 2 may be done before it;
 *   - failures at either end in any state (FAILURES in all; what they bring about at the other end is not counted),
 *     failing back (a failure without a reason) and R's changes of usable rails among them;
 *   - the side channel as two FIFOs, the threads that read it at once, and user threads that are polled only while they
 *     have requests outstanding. LAZY: users may make their next call only after everything has come to rest;
 *   - time only as Promela's timeout: when nothing else can happen, a lazy user calls or a recovery's 60 s are over.
 * Checked: a write lands only in an open receive of its number, once, from a buffer that S's user has not got back; S completes
 * a send only when R's memory has all of it, and, when it is told so by a frame, after its own queue pairs are gone; entries
 * are used in the epoch they were made in and for the send they belong to; R completes a receive only with all of its data.
 * At rest everything has completed (with PARTITION, LOSS or ABORT: or an end that has something open has failed). That it comes
 * to rest is the absence of non-progress cycles: no step is marked as progress, so the state graph has no cycle at all.
 * Not modelled: groups and tags (a group is a message), silent receives, iWARP (where the read behind a message
 * is what its acknowledgement is here; mutation 26 completes a send without it), RDMA CM (a queue pair of S's is up before R knows it of its own),
 * packets of a dead epoch that a new queue pair of the same number takes for its own (mutation 29 shows why it must not), queue pairs of S's
 * that a silent driver has not stopped yet when R has left, the choice of pairs and its back-off, the handshake before epoch 1, the seals of the frames (a seal ends the side channel where
 * a FIFO would lose, repeat or swap a frame: to the ends that is a peer that dies, docs/security.md), a process that dies, numbers that wrap. Bringing queue pairs up is one step; that it
 * fails is a failure before or after it.
 *
 * Macros: N, WINDOW, FAILURES; LAZY (above); CLOSE: ends close when they are done; ABORT: at any time; PARTITION: the ends may lose
 * each other for good; LOSS: a device dies with completions that it has acknowledged.
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

mtype = { Running, Breaking, Broken, Settled, Connecting, Failed, Closed };     /* states; Settled is S's only */
mtype = { Break, Reconcile, Arrived, Propose, Waiting, Accept, Ready, Close };  /* frames */
#define LIVE(state) (state != Failed && state != Closed)

chan toR = [FRAMES] of { mtype, byte };                 /* frame, epoch */
chan rBox = [FRAMES] of { mtype, byte };                /* read by R's service thread, not yet by its user thread */
chan toS = [FRAMES] of { mtype, byte, byte, bool };     /* frame, epoch, complete receives, some are open */
#ifdef LOSS
chan sBox = [FRAMES] of { mtype, byte, byte, bool };
byte unread, unreadMask;                /* newest Reconcile that S's user thread has not handled */
#else
#define sBox toS
#endif

mtype sState = Running, rState = Running;
byte sTarget = 1, rTarget = 1;          /* highest epoch known */
byte sPairs = 1, rPairs = 1;            /* epoch of the live queue pairs, 0: none */
byte failures = FAILURES;
bool connected = true;                  /* false: no pair of rails reaches the other end any more */

byte issued, sDone, sPosted;            /* sends: number issued; masks: complete, posted in this epoch */
byte acked;                             /* parts whose acknowledgement S's device has */
byte entry = 1, ring[N + 1];            /* next receive to match; epoch of the clear-to-send entries there */
byte ringArrived;                       /* what the entries say has arrived */
bool peerOpen, waitingSaid;             /* Reconcile said that R has open receives; Waiting was sent */

byte opened, rDone, entries;            /* receives: number opened; mask complete; entries written in this epoch */
byte flying, landed, got, memory;       /* parts: in flight to R's queue pairs, completion not polled, counted, in R's memory */
byte rNext;                             /* number to which R is breaking */
byte heard;                             /* last epoch for which S said that it has unfinished sends */
byte asked, answered;                   /* Break that R has not reconciled yet, 0: none; what the last Arrived said */
#ifdef LAZY
byte prompt_sends, prompt_receives;     /* so many calls come at any time, the others only at rest */
#else
#define prompt_sends N
#define prompt_receives N
#endif

/* User threads are polled only then. */
#define S_POLLED (LIVE(sState) && sDone != UPTO(issued))
#define R_POLLED (LIVE(rState) && rDone != UPTO(opened))

/* irecv finds room. */
#define MAY_OPEN (opened < N && opened - PREFIX(rDone) < WINDOW)

inline sayR(frame, x) { if :: LIVE(rState) -> assert(nfull(toR)); toR!frame,x :: else fi }
inline sayS(frame, x, mask, open) { if :: LIVE(sState) -> assert(nfull(toS)); toS!frame,x,mask,open :: else fi }

/* ---- S ---- */

/* The end of a break: what is left in the completion queues was lost, queue pairs destroyed, the ring zeroed. */
inline sBreak() {
  sPairs = 0; sPosted = 0;
#if MUTATION != 7
  acked = 0;
#endif
  ringArrived = 0;
#if MUTATION != 8
  for (k : 1 .. N) { ring[k] = 0 }
  k = 0;
#endif
  peerOpen = false; waitingSaid = false;
  sState = Broken
}

/* S sees a failure. It says so at once, and waits until its queue pairs are stopped or R has left. What its device still
 * acknowledges is not polled. */
inline sFails() {
  sTarget++;
  assert(sTarget <= rTarget + 1);
  sayR(Break, sTarget);
#if MUTATION == 5
  sState = Broken
#else
  sPairs = 0; sState = Breaking
#endif
}

inline sCompletes(those) {
  for (k : 1 .. N) { if :: (those) & BIT(k) -> assert(HAS(memory, PARTS(k))) :: else fi }
  k = 0;
  sDone = sDone | those
}

/* Sends whose receives are complete by a frame. */
inline sLearns(those) {
  assert(sPairs == 0);
  sCompletes(those)
}

inline sGivesUp() { sBreak(); sState = Failed; sayR(Close, 0) }

inline sOnReconcile(x, mask, open) {
#ifdef LOSS
  if :: x == unread -> unread = 0; unreadMask = 0 :: else fi;
#endif
  assert(x >= sTarget);                 /* each Reconcile is read before S leaves Broken */
#if MUTATION == 2
  sLearns(mask);
#endif
  if
  :: x > sTarget || sState == Breaking -> sBreak(); sTarget = x
  :: else ->
    assert(sState == Broken);
#if MUTATION == 5
    sBreak()
#endif
  fi;
  if
  :: !HAS(mask, sDone) ->               /* lost with the device that acknowledged it */
#ifdef LOSS
    sGivesUp()
#else
    assert(false)
#endif
  :: else ->
#if MUTATION == 9
    sLearns(UPTO(PREFIX(mask)));
#else
    sLearns(mask);
#endif
#if MUTATION != 16
    entry = PREFIX(mask) + 1;
#endif
    peerOpen = open;
    sState = Settled
  fi
}

#define ACKED(k) (sPosted & ~sDone & BIT(k) && HAS(acked, PARTS(k)))

active proctype Sender() {
  mtype frame; byte x, mask, k; bool open;
end:
  do
  :: atomic { issued < prompt_sends && LIVE(sState) -> issued++ }
  :: atomic { S_POLLED && sState == Running && entry <= N && ring[entry] != 0 && (sDone & BIT(entry) || entry <= issued) ->
      assert(ring[entry] == sPairs);
      if
#if MUTATION != 10
      :: sDone & BIT(entry) -> skip     /* done out of order in an epoch before */
#endif
      :: else ->
        k = 1;
        do :: (sDone | sPosted) & BIT(k) -> k++ :: else -> break od;
        assert(k == entry);             /* the send that belongs to this receive */
        sPosted = sPosted | BIT(k);
        if :: rPairs == sPairs -> flying = flying | PARTS(k) :: else -> skip /* to nobody */ fi;
#if MUTATION == 26
        acked = acked | PARTS(k);
#endif
        k = 0
      fi;
      entry++ }
  :: atomic { S_POLLED && sPairs && (ACKED(1) || ACKED(2) || ACKED(3) || ACKED(4)) ->
      for (k : 1 .. N) {
        if :: ACKED(k) -> assert(HAS(memory, PARTS(k))); sDone = sDone | BIT(k) :: else fi
      }
      k = 0 }
  :: atomic { S_POLLED && (sPairs || sState == Breaking) && UPTO(ringArrived) & ~sDone -> sCompletes(UPTO(ringArrived)) }
  /* Failures: its own, and that its queue pairs have no other half any more. */
  :: atomic { S_POLLED && (sState == Running || sState == Connecting) && failures -> failures--; sFails() }
  :: atomic { S_POLLED && sState == Running && (rPairs != sPairs || !connected) && (rTarget > sTarget || !connected) -> sFails() }
  :: atomic { S_POLLED && sState == Breaking -> sBreak() }
  /* Propose, or say that there is nothing to propose. */
  :: atomic { S_POLLED && sState == Settled && connected -> sayR(Propose, sTarget); sState = Connecting }
#ifdef PARTITION
  :: atomic { S_POLLED && sState == Settled && !connected && !waitingSaid && MUTATION != 21 ->
      sayR(Waiting, sTarget); waitingSaid = true }
#endif
  :: atomic { S_POLLED && nempty(sBox) -> sBox?frame,x,mask,open;
      if
      :: frame == Arrived -> sLearns(mask)
      :: frame == Reconcile -> sOnReconcile(x, mask, open)
      :: frame == Reconcile && sBox??[Reconcile,_,_,_] -> skip        /* a mailbox may keep the newest only */
      :: frame == Accept ->
        if
#if MUTATION == 3
        :: true ->
#else
        :: x == sTarget ->
          assert(sState == Connecting);
#endif
          sPairs = x; sState = Running; sayR(Ready, x)
        :: else -> assert(sState == Broken || sState == Breaking)
        fi
      :: frame == Close ->
#if MUTATION == 27
        sLearns(mask);
#endif
        sBreak();
#if MUTATION != 18
        sLearns(mask);
#endif
        if :: sDone == UPTO(N) -> sState = Closed :: else -> sState = Failed fi
      fi;
      frame = 0; x = 0; mask = 0; open = 0 }
#ifdef CLOSE
  :: atomic { LIVE(sState) && sDone == UPTO(N) -> sBreak(); sState = Closed; sayR(Close, 0) }
#endif
#ifdef ABORT
  :: atomic { LIVE(sState) -> sGivesUp() }
#endif
  od
}

#ifdef LOSS
/* S's service thread: what was reported complete and is not in a Reconcile is lost, also when nobody polls S. Looks again until
 * the user thread has handled the Reconcile: it may see the acknowledgement after the Reconcile came. */
active proctype SenderService() {
  mtype frame; byte x, mask, k; bool open;
end:
  do
  :: atomic { toS?frame,x,mask,open ->
      if :: frame == Reconcile -> unread = x; unreadMask = mask :: else fi;
      assert(nfull(sBox));
      sBox!frame,x,mask,open;
      frame = 0; x = 0; mask = 0; open = 0 }
  :: atomic { unread && !HAS(unreadMask, sDone) && LIVE(sState) && MUTATION != 22 -> unread = 0; unreadMask = 0; sGivesUp() }
  od
}
#endif

/* ---- R ---- */

/* What has landed counts. */
inline rDrain() {
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

/* Queue pairs to ERR: what is in flight dies. */
inline rFails(number) {
  rNext = number;
#if MUTATION == 1
  rBreak()
#else
  rPairs = 0;
#if MUTATION != 29
  flying = 0;
#endif
  rState = Breaking
#endif
}

/* The end of a break: drained, queue pairs destroyed. */
inline rBreak() {
  rTarget = rNext; rNext = 0; rState = Broken;
  if :: rTarget >= asked -> asked = 0; answered = 0 :: else fi;
#if MUTATION == 1
  sayS(Reconcile, rTarget, rDone, (rDone != UPTO(opened)));
#elif MUTATION != 4
  rDrain();
#endif
#if MUTATION != 6
  got = 0;                      /* of open receives: all of them will come again */
#endif
#if MUTATION != 17
  entries = 0;
#endif
#if MUTATION != 1
  sayS(Reconcile, rTarget, rDone, (rDone != UPTO(opened)))
#endif
}

inline rGivesUp() {
  rDrain(); rPairs = 0; flying = 0;
  rState = Failed;
  sayS(Close, 0, UPTO(PREFIX(rDone)), false)
}

active proctype Receiver() {
  mtype frame; byte x, k;
end:
  do
  :: atomic { MAY_OPEN && opened < prompt_receives && LIVE(rState) -> opened++ }
  :: atomic { R_POLLED && rState == Running && entries < opened ->      /* clear to send, also for those done out of order */
      entries++;
      if :: sPairs == rPairs -> ring[entries] = rPairs; ringArrived = PREFIX(rDone) :: else -> skip fi }
#if MUTATION == 4
  :: atomic { R_POLLED && rPairs && landed -> rDrain() }
#else
  :: atomic { R_POLLED && landed -> rDrain() }
#endif
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
  :: atomic { R_POLLED && rState == Breaking -> rBreak() }
  :: atomic { R_POLLED && rState == Running && (sPairs != rPairs || !connected) && (sTarget > rTarget || !connected) ->
      rFails(rTarget + 1) }
#if MUTATION == 1
  :: atomic { rState == Broken && rPairs -> rDrain(); rPairs = 0; flying = 0; got = 0 }
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
#if MUTATION != 17 && MUTATION != 12
          entries = PREFIX(rDone)
#endif
        :: else -> assert(rState == Broken)
        fi
      :: frame == Close ->
#if MUTATION != 19
        rDrain();
#endif
        rPairs = 0; flying = 0;
        if :: rDone == UPTO(N) -> rState = Closed :: else -> rState = Failed fi
      fi;
      frame = 0; x = 0 }
#ifdef CLOSE
  :: atomic { LIVE(rState) && rDone == UPTO(N) ->
      rPairs = 0; flying = 0; rState = Closed; sayS(Close, 0, rDone, false) }
#endif
#ifdef ABORT
  :: atomic { LIVE(rState) -> rGivesUp() }
#endif
  od
}

/* R's service thread reads at once, and answers Break from memory; again when more arrives while R has not reconciled it. */
active proctype ReceiverService() {
  mtype frame; byte x;
end:
  do
  :: atomic { toR?frame,x ->
      if
      :: frame == Break && MUTATION != 15 ->
#if MUTATION == 28
        sayS(Arrived, 0, (rDone & 2 -> 3 : rDone & 1), false);
#else
        sayS(Arrived, 0, UPTO(PREFIX(rDone)), false);
#endif
        if :: x > rTarget -> asked = x; answered = PREFIX(rDone) :: else fi
      :: else
      fi;
      assert(nfull(rBox));
      rBox!frame,x;
      frame = 0; x = 0 }
  /* The user thread may poll what completes the last open receive, and be idle, before it looks for frames. */
  :: atomic { asked && answered < PREFIX(rDone) && MUTATION != 24 ->
      answered = PREFIX(rDone);
      sayS(Arrived, 0, UPTO(answered), false) }
  od
}

/* ---- between them ---- */

#define LAND(part, k) atomic { flying & part && (MUTATION != 29 || rPairs) -> \
  assert(k <= opened && !(rDone & BIT(k)));     /* an open receive of this number */ \
  assert(!((landed | got) & part));             /* once in an epoch */ \
  assert(!(sDone & BIT(k)));                    /* from a buffer that is still the message's */ \
  flying = flying & ~part; landed = landed | part; memory = memory | part; \
  if :: sPairs == rPairs -> acked = acked | part :: else fi }

active proctype Network() {
end:
  do
  :: LAND(1, 1)
  :: LAND(2, 1)
  :: LAND(4, 2)
  :: LAND(8, 3)
  :: LAND(16, 4)
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
