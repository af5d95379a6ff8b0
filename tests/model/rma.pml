/* One-sided communication over several rails: the target applies numbered signals. W writers, each with a connection to
 * one target; all add to one slot in GPU memory. Each writer has up to three operations:
 *   1: a put striped over both rails, with a signal;
 *   2: a plain put over rail 1, then a put over rail 0 with a signal, which owes a mark on rail 1;
 *   3: a small put with a signal over rail 0 (N=3).
 * Operation i has three parts, bits 3(i-1) and up:
 *   PLAIN   data without an immediate, rail 1
 *   MARK    the stripe of 1, the mark of 2: with an immediate, rail 1
 *   REPORT  data and the signal's number: with an immediate, rail 0
 * In an epoch with one rail all parts take that one, in order. A rail (RC) keeps the order of its bits; with OOO it
 * places writes in any order, while completions and acknowledgements stay in order.
 *
 * Data that have landed are in the target's NIC. The GPU sees them when that NIC is pushed, by a flush or by the
 * signal's own write, and never earlier: that is the worst case. A signal is written to the slot by a loopback write of
 * the absolute value. README.md says what the names stand for in the code; MUTATION are mistakes that spin must find. */
#ifndef N
#define N 2               /* operations of writer 0 */
#endif
#ifndef W
#define W 1               /* writers */
#endif
#ifndef FAILURES
#define FAILURES 2        /* of connections, seen by either end */
#endif
#ifndef LOCALFAILURES
#define LOCALFAILURES 1   /* of the NIC that does the loopback write */
#endif
#ifndef MUTATION
#define MUTATION 0
#endif
#define EPOCHS 5

#define PLAIN(i) (1 << (3*((i)-1)))
#define MARK(i) (2 << (3*((i)-1)))
#define REPORT(i) (4 << (3*((i)-1)))
#define OP1 (MARK(1)|REPORT(1))
#define OP2 (PLAIN(2)|MARK(2)|REPORT(2))
#define OP3 REPORT(3)
#define PARTS(i) ((i) == 1 -> OP1 : ((i) == 2 -> OP2 : OP3))
#define IMMEDIATES(i) (PARTS(i) & ~PLAINS)
#define DATA(i) ((i) == 2 -> PLAIN(2)|REPORT(2) : PARTS(i))   /* the mark of 2 has no data */
#define UPTO(k) ((k) == 0 -> 0 : ((k) == 1 -> OP1 : ((k) == 2 -> OP1|OP2 : OP1|OP2|OP3)))
#define PLAINS (PLAIN(1)|PLAIN(2)|PLAIN(3))
#define RAIL0 (REPORT(1)|REPORT(2)|REPORT(3))
#define RAIL1 (PLAINS|MARK(1)|MARK(2)|MARK(3))
#define WORK0 (OP1|OP2|(N > 2 -> OP3 : 0))
#define LIMIT(w) ((w) == 0 -> N : 3)           /* writer 1 has done 1 and 2 at the start: it has only 3 */
#define ALL ((w) == 0 -> WORK0 : WORK0|OP3)
#define HAS(a, b) (((a) & (b)) == (b))
#define RAILOF(w, part) (offered[w] -> ALL : ((part) & RAIL0 -> RAIL0 : RAIL1))

mtype = { Break };
chan toTarget[W] = [4] of { mtype, byte };      /* Break: epoch */
chan toWriter[W] = [4] of { byte, byte };       /* Reconcile: epoch, the last signal that is applied */
byte failures = FAILURES, localFailures = LOCALFAILURES;
/* a writer */
byte writerEpoch[W];                            /* of its queue pairs, + 1; 0: it has none */
byte writerKnown[W];                            /* the newest epoch that it knows */
short posted[W], acknowledged[W];               /* in this epoch */
short done[W];                                  /* reported to the user by test() */
short givenBack[W];                             /* sources that the user may write again */
/* the target */
byte targetEpoch[W], targetKnown[W];
bool offered[W];                                /* this epoch has one rail */
short inFlight[W];                              /* parts on their way to the target's queue pairs */
short placed[W];                                /* OOO: placed, not completed */
short completed[W], polled[W];                  /* completions in the target's CQ; polled in this epoch */
short inNic[W], visible[W];                     /* data that have landed; that the GPU sees */
short unflushed[W];                             /* data that are in the NIC of rail 1 */
byte applied[W];                                /* signals 1 to this one are applied */
byte shadow, slot;                              /* the sum in host memory; in GPU memory */
byte loopback;                                  /* value + 1 of the loopback write under way */
byte oldLoopback;                               /* the same on a NIC that was given up */
bool loopbackDue;

/* the lowest part that is neither posted in this epoch nor done; there is one */
inline nextPart(w, part) {
  part = 1;
  do :: (posted[w] | done[w]) & part || !(ALL & part) -> part = part << 1 :: else -> break od
}

/* A request is done when all its parts are acknowledged and all requests before it are done. */
#if MUTATION == 5
#define MAYDONE(parts, before) (HAS(acknowledged[w] | done[w], parts) && !HAS(done[w], parts))
#else
#define MAYDONE(parts, before) (HAS(acknowledged[w] | done[w], parts) && !HAS(done[w], parts) && HAS(done[w], before))
#endif
#define DONE1 MAYDONE(OP1, 0)
#define DONE2PLAIN MAYDONE(PLAIN(2), OP1)
#define DONE2 MAYDONE(MARK(2)|REPORT(2), OP1|PLAIN(2))
#define DONE3 ((ALL & OP3) && MAYDONE(OP3, OP1|OP2))

proctype Writer(byte w) {
  int part; byte epoch, last;
end:
  do
  :: atomic { writerEpoch[w] && HAS(posted[w] | done[w], ALL) == 0 -> nextPart(w, part);
      posted[w] = posted[w] | part;
      if :: targetEpoch[w] == writerEpoch[w] -> inFlight[w] = inFlight[w] | part :: else fi; part = 0 }
  /* test() */
  :: atomic { writerEpoch[w] && (DONE1 || DONE2PLAIN || DONE2 || DONE3) ->
      if :: DONE1 -> done[w] = done[w] | OP1 :: else fi;
      if :: DONE2PLAIN -> done[w] = done[w] | PLAIN(2) :: else fi;
      if :: DONE2 -> done[w] = done[w] | MARK(2)|REPORT(2) :: else fi;
      if :: DONE3 -> done[w] = done[w] | OP3 :: else fi;
      givenBack[w] = givenBack[w] | done[w] }
  /* a failure that the writer sees */
  :: atomic { failures && writerEpoch[w] && done[w] != ALL ->
      failures--; writerEpoch[w] = 0; acknowledged[w] = 0; writerKnown[w]++; toTarget[w]!Break,writerKnown[w] }
  /* Reconcile: what is applied is done; the rest is repeated as a whole, in order */
  :: atomic { toWriter[w]?epoch,last ->
      if
      :: epoch >= writerKnown[w] ->
         writerEpoch[w] = 0; writerKnown[w] = epoch;
         assert(HAS(UPTO(last), done[w] & ~PLAINS));   /* what is done needs no repeat */
#if MUTATION != 2
         done[w] = done[w] | UPTO(last); givenBack[w] = givenBack[w] | done[w];
#endif
#if MUTATION == 8
         done[w] = done[w] & (~PLAINS | UPTO(last));
#endif
         posted[w] = 0; acknowledged[w] = 0; writerEpoch[w] = epoch + 1
      :: else
      fi; epoch = 0; last = 0 }
  od
}

/* A part lands: not in a buffer that the target has handed over, and not from a source that was given back. The mark of
 * operation 2 has no data. */
inline land(w, part) {
  assert(((part) & UPTO(applied[w]) & (DATA(1)|DATA(2)|DATA(3))) == 0);
  assert(!((part) & givenBack[w]) || ((part) & MARK(2)));
  inFlight[w] = inFlight[w] & ~(part); inNic[w] = inNic[w] | (part);
  unflushed[w] = unflushed[w] | (offered[w] -> 0 : (part) & RAIL1)
}
inline complete(w, part) {
  completed[w] = completed[w] | ((part) & ~PLAINS);
  if :: writerEpoch[w] == targetEpoch[w] -> acknowledged[w] = acknowledged[w] | (part) :: else fi
}
#define EARLIER(w, part) (RAILOF(w, part) & ((part) - 1))
#ifdef OOO
#define PASS(part) \
  :: atomic { inFlight[w] & (part) -> land(w, part); placed[w] = placed[w] | (part) } \
  :: atomic { placed[w] & (part) && !((inFlight[w] | placed[w]) & EARLIER(w, part)) -> placed[w] = placed[w] & ~(part); complete(w, part) }
#else
#define PASS(part) :: atomic { inFlight[w] & (part) && !(inFlight[w] & EARLIER(w, part)) -> land(w, part); complete(w, part) }
#endif
proctype Network(byte w) {
end:
  do
  PASS(MARK(1))
  PASS(REPORT(1))
  PASS(PLAIN(2))
  PASS(MARK(2))
  PASS(REPORT(2))
  PASS(REPORT(3))
  od
}

#if MUTATION == 3
#define NEEDED(i) REPORT(i)
#else
#define NEEDED(i) IMMEDIATES(i)
#endif
#define READY(w) (applied[w] < LIMIT(w) && HAS(polled[w], NEEDED(applied[w] + 1)))
/* Applies the next signal. Its own write pushes the NIC of rail 0; rail 1 is flushed where the signal has a mark there. */
inline apply(w) {
#if MUTATION != 4
  unflushed[w] = (!offered[w] && (IMMEDIATES(applied[w] + 1) & RAIL1) -> 0 : unflushed[w]);
#endif
  visible[w] = visible[w] | (inNic[w] & ~unflushed[w]);
  applied[w]++; shadow++; loopbackDue = true;
  assert(HAS(inNic[w], DATA(applied[w])) && HAS(visible[w], DATA(applied[w])))
}
/* The target leaves an epoch: it stops its queue pairs, flushes each rail that it leaves, polls what has completed,
 * applies what is ready, tells the writer how far it is, and offers an epoch with one rail or two. */
inline fence(w, epoch) {
#if MUTATION != 1
  inFlight[w] = 0; placed[w] = 0;
#endif
  targetEpoch[w] = 0; targetKnown[w] = epoch;
#if MUTATION != 11
  unflushed[w] = 0; visible[w] = visible[w] | inNic[w];
#endif
#if MUTATION != 6
  polled[w] = polled[w] | completed[w];
  do :: READY(w) -> apply(w) :: else -> break od;
#endif
#if MUTATION != 9
  polled[w] = 0;
#endif
  completed[w] = 0;
#if MUTATION == 10
  toWriter[w]!epoch,(applied[w] > 0 -> applied[w] - 1 : 0);
#else
  toWriter[w]!epoch,applied[w];
#endif
  if :: offered[w] = true :: offered[w] = false fi;
  targetEpoch[w] = epoch + 1
}

/* What the target does for writer w: poll, apply, fail by itself, hear a Break. */
#define SERVE(w) \
  :: atomic { completed[w] -> polled[w] = polled[w] | completed[w]; completed[w] = 0 } \
  :: atomic { READY(w) -> apply(w) } \
  :: atomic { failures && targetKnown[w] < EPOCHS && applied[w] < LIMIT(w) -> failures--; epoch = targetKnown[w] + 1; fence(w, epoch); epoch = 0 } \
  :: atomic { toTarget[w]?Break,epoch -> if :: epoch > targetKnown[w] -> fence(w, epoch) :: else fi; epoch = 0 }

active proctype Target() {
  byte w, epoch;
  atomic {
    for (w : 0 .. W-1) { writerEpoch[w] = 1; targetEpoch[w] = 1; run Writer(w); run Network(w) };
    w = 0;
#if W > 1
    done[1] = UPTO(2); givenBack[1] = done[1]; applied[1] = 2; inNic[1] = done[1]; visible[1] = done[1];
#endif
  }
end:
  do
  SERVE(0)
#if W > 1
  SERVE(1)
#endif
  /* the loopback write of the absolute value: one under way, on a queue pair of its own */
  :: atomic { loopbackDue && !loopback -> loopback = shadow + 1; loopbackDue = false }
  :: atomic { loopback -> assert(loopback - 1 >= slot); slot = loopback - 1; loopback = 0 }
  /* its NIC fails, the write executed or not: the target stops it, then writes again over another NIC */
  :: atomic { loopback && localFailures -> localFailures--;
#if MUTATION == 7
      oldLoopback = loopback;
#endif
      if :: slot = loopback - 1 :: skip fi; loopback = 0; loopbackDue = true }
#if MUTATION == 7
  :: atomic { oldLoopback -> assert(oldLoopback - 1 >= slot); slot = oldLoopback - 1; oldLoopback = 0 }
#endif
  od
}

/* At rest everything is done, and the slot has the exact value. */
active proctype Clock() {
end:
  do
  :: atomic { timeout -> assert(slot == N + W - 1); assert(shadow == slot); assert(done[0] == WORK0);
#if W > 1
      assert(done[1] == (WORK0|OP3));
#endif
      break }
  od
}
