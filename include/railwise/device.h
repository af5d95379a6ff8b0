/* What the software verbs device tells about itself, for C (C99) and C++. The functions lie in the drop-in
 * libibverbs.so.1 (lib/railwise-verbs/) only; a program that also runs on real libibverbs finds it so:
 *
 *   int (*counters)(const struct ibv_context*, struct railwise_device_counts*, size_t);
 *   *(void**)&counters = dlsym(RTLD_DEFAULT, "railwise_device_counters");   // NULL: real libibverbs
 *
 * Threads: any number may call it at any time, while the context is open. ABI: the structure grows at its end
 * and the caller says how much of it he knows; names and meanings stay. */
#ifndef RAILWISE_DEVICE_H
#define RAILWISE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_qp;

/* Exact counts of this context since it was opened, destroyed queues included. A work request counts when it
 * is accepted. */
struct railwise_device_counts {
  uint64_t post_send_calls; /* doorbells */
  uint64_t writes;          /* work requests by opcode */
  uint64_t writes_with_imm;
  uint64_t reads;
  uint64_t sends;   /* with and without immediate data */
  uint64_t atomics; /* compare and swap, fetch and add */
  uint64_t send_sges;
  uint64_t inline_sends;
  uint64_t signalled_sends;
  uint64_t receives;
  uint64_t post_recv_calls;
  uint64_t poll_calls;
  uint64_t empty_polls;
  uint64_t completions;  /* taken by polls */
  uint64_t bytes;        /* payload of accepted sends */
  uint64_t system_calls; /* that moved data */
};

/* Fills in the first `size` bytes of *counters (sizeof *counters); what a newer caller knows and this library
 * does not is 0. Returns 0, or EINVAL for a null pointer. */
int railwise_device_counters(const struct ibv_context* context, struct railwise_device_counts* counters,
                             size_t size);

/* The same for one queue pair, since it was created. What belongs to completion queues is 0 (poll_calls,
 * empty_polls, completions), and what belongs to a shared receive queue, when it has one (receives,
 * post_recv_calls). The queue pair must not be destroyed meanwhile. */
int railwise_device_qp_counters(const struct ibv_qp* qp, struct railwise_device_counts* counters,
                                size_t size);

#ifdef __cplusplus
}
#endif

#endif
