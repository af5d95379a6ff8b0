/* How a side channel is resumed over a new TCP connection (docs/develop/wireup.md, "A side channel that breaks"; src/net/wireup/resumer.cc,
 * side_channel.cc). Two ends send each other N numbered frames. TCP connections break at any moment, and each end notices when it
 * likes; what is under way then is lost, or part of it still arrives. A (the sender of the connection) calls: hello, answer, proof;
 * frames follow over the same TCP connection. A may also call while it only doubts its TCP connection.
 * Checked: each frame is taken once and in order; no end forgets a frame that the other has not heard; an end is never told that the
 * other has frames that it has not sent. At rest, when enough calls are left, all frames have arrived at both ends.
 * B takes a call only once, and only a newer one than before; of several calls only the newest may prove itself.
 * Not modelled: MACs (a wrong one breaks the TCP connection), refusals and the death of an end, B's asking A to call (here A notices
 * each break by itself).
 *
 * Macros: N, BREAKS, DOUBTS; MUTATION: a mistake, see resumer_test.py. */
#ifndef N
#define N 2
#endif
#ifndef BREAKS
#define BREAKS 2
#endif
#ifndef DOUBTS
#define DOUBTS 1
#endif
#ifndef MUTATION
#define MUTATION 0
#endif
/* Connection 0 is the handshake's. Each break costs one call, each doubt two: the call, and the one that it overtakes. */
#define MOST (BREAKS + 2 * DOUBTS + 2)
#define NONE 255
#define ROOM (N + 2)
#define A 0
#define B 1

mtype = { HELLO, ANSWER, PROOF, FRAME };

/* What is under way in a connection, from A (2 * c) and from B (2 * c + 1): kind, number, heard. */
chan net[2 * MOST] = [ROOM] of { mtype, byte, byte };
bool cut[MOST];          /* the TCP connection has ended, for both */

byte sent[2];            /* frames that this end has made */
byte base[2];            /* of them, these are forgotten: the other has heard them */
byte flushed[2];         /* and these are in the socket */
byte heard[2];           /* frames of the other that this end has taken */
byte due[2] = 1;         /* the number that comes next over this TCP connection */
byte conn[2];            /* the TCP connection in use; NONE: it is broken */
byte resumed;            /* how often B has resumed */
byte calls, call = NONE; /* A's call under way */
byte doubts;
byte resumed_then[MOST];     /* resumed, when B answered call c; NONE: no answer */
byte answered[MOST];     /* what B said then that it had heard */
byte newest;             /* the newest call that B has taken */

/* The other has told that it has all frames up to `number`. */
inline forget(e, number) {
  assert(number <= sent[e]);
  if
  :: number > base[e] ->
     if
     :: number <= flushed[e] -> base[e] = number
     :: else -> base[e] = flushed[e]  /* half of a frame must not go */
     fi
  :: else
  fi;
  assert(base[e] <= heard[1 - e])
}

/* `it`: what this end had told that it has heard; `its`: what the other has. */
inline resume(e, c, its, it) {
  if
#if MUTATION != 6
  :: its < base[e] -> cut[c] = true  /* an old call: the other has told of more since */
#endif
  :: else ->
     if
     :: conn[e] != NONE -> cut[conn[e]] = true
     :: else
     fi;
     flushed[e] = sent[e];
     forget(e, its);
#if MUTATION == 1
     flushed[e] = sent[e];              /* what was under way is not sent again */
#else
     flushed[e] = base[e];
#endif
#if MUTATION == 2
     due[e] = heard[e] + 1;             /* not what the other was told */
#else
     due[e] = it + 1;
#endif
     conn[e] = c
  fi
}

inline put(e) {
  flushed[e]++;
  if
  :: cut[conn[e]]
  :: else -> net[2 * conn[e] + e] ! FRAME(flushed[e], heard[e])
  fi;
#if MUTATION == 3
  base[e] = flushed[e];                 /* the socket has it: forgotten */
#endif
  assert(base[e] <= sent[e])
}

inline take(e, number, told) {
  assert(number == due[e]);
  if
  :: due[e] <= heard[e] -> due[e]++     /* it came over an earlier connection, too */
  :: else ->
#if MUTATION == 4
     due[e] = number + 1; heard[e] = sent[1 - e]  /* counts what was made, not what has come */
#else
     heard[e]++;
     due[e] = heard[e] + 1
#endif
     ;
     assert(heard[e] == number);
     forget(e, told)
  fi
}

active proctype sender() {
  byte number, told;
end:
  do
  :: atomic { sent[A] < N -> sent[A]++ }
  :: atomic { conn[A] != NONE && flushed[A] < sent[A] && (cut[conn[A]] || nfull(net[2 * conn[A]])) -> put(A) }
  :: atomic { conn[A] != NONE && nempty(net[2 * conn[A] + 1]) && net[2 * conn[A] + 1] ? [FRAME, _, _] ->
     net[2 * conn[A] + 1] ? FRAME(number, told); take(A, number, told); number = 0; told = 0 }
  :: atomic { conn[A] != NONE && cut[conn[A]] -> conn[A] = NONE }
  :: atomic { call == NONE && calls + 1 < MOST && (conn[A] == NONE || doubts < DOUBTS) ->
     if
     :: conn[A] == NONE
     :: else -> doubts++
     fi;
     calls++; call = calls; net[2 * call] ! HELLO(0, 0) }
  :: atomic { call != NONE && net[2 * call + 1] ? [ANSWER, _, _] ->
     net[2 * call + 1] ? ANSWER(number, told); net[2 * call] ! PROOF(heard[A], 0); resume(A, call, number, heard[A]);
     call = NONE; number = 0; told = 0 }
  :: atomic { call != NONE && cut[call] -> call = NONE }
#if DOUBTS > 0
  :: atomic { call != NONE && conn[A] != NONE -> cut[call] = true; call = NONE }  /* gives it up: too slow */
#endif
  od
}

active proctype receiver() {
  byte number, told;
end:
  do
  :: atomic { sent[B] < N -> sent[B]++ }
  :: atomic { conn[B] != NONE && flushed[B] < sent[B] && (cut[conn[B]] || nfull(net[2 * conn[B] + 1])) -> put(B) }
  :: atomic { conn[B] != NONE && net[2 * conn[B]] ? [FRAME, _, _] ->
     net[2 * conn[B]] ? FRAME(number, told); take(B, number, told); number = 0; told = 0 }
  :: atomic { conn[B] != NONE && cut[conn[B]] -> conn[B] = NONE }
  od
}

/* B answers the calls. */
active [MOST - 1] proctype answerer() {
  byte number;
  byte c = _pid - 1;  /* the sender is 0, the receiver 1 */
end:
  atomic {
    net[2 * c] ? HELLO(_, _); resumed_then[c] = resumed; answered[c] = heard[B];
    if
    :: c < newest -> cut[c] = true      /* A has called again since; or it is a recorded hello */
    :: else ->
       newest = c;
       if
       :: cut[c]
       :: else -> net[2 * c + 1] ! ANSWER(heard[B], 0)
       fi
    fi
  }
end_again:
  atomic {
    net[2 * c] ? PROOF(number, _);
    if
    :: c == newest && resumed_then[c] == resumed ->
       resumed++;
#if MUTATION == 5
       answered[c] = heard[B];          /* what it has heard by now */
#endif
       resume(B, c, number, answered[c])
    :: else -> cut[c] = true            /* a newer call has overtaken this one: saves a break, no more */
    fi
  }
}

active proctype network() {
  byte breaks, c;
  do
  :: atomic { breaks < BREAKS ->
     if
     :: conn[A] != NONE -> c = conn[A]
     :: call != NONE -> c = call
     :: conn[B] != NONE -> c = conn[B]
     fi;
     cut[c] = true; breaks++; c = 0 }
  :: break
  od
}

/* Nothing more can happen: everything has arrived. */
active proctype rest() {
  byte e;
end:
  timeout -> assert(heard[A] == N && heard[B] == N)
}
