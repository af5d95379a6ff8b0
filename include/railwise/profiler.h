/* The events that Railwise reports to NCCL's profiler (NCCL 2.26 and later), for authors of profiler plugins,
 * in C (C99) and C++. They arrive as ncclProfileNetPlugin events below NCCL's proxy step:
 *
 *   if (descriptor->type == ncclProfileNetPlugin && RAILWISE_PROFILER_IS_V1(descriptor->netPlugin.id)) {
 *     const struct railwise_profiler_event_v1* event = descriptor->netPlugin.data;
 *     ...   // copy what you need: it is good during this call only
 *   }
 *
 * An event starts when work is given to a queue pair and stops when its completion has been seen. That of a
 * receive has, just before the stop, the state ncclProfilerNetPluginUpdate with kind, device, message, and
 * the bytes that came; of its other fields rail is -1 and the rest 0. ABI: what version 1 means stays;
 * another version gets another number. */
#ifndef RAILWISE_PROFILER_H
#define RAILWISE_PROFILER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NCCL numbers the source of an event in bits 16 to 31 and the version of its data below: 1 is NCCL's own
 * InfiniBand, 2 its sockets. "RW" is Railwise. */
#define RAILWISE_PROFILER_TYPE 0x52570000
#define RAILWISE_PROFILER_VERSION 1
#define RAILWISE_PROFILER_IS_V1(id) ((id) == (RAILWISE_PROFILER_TYPE | 1))

enum railwise_profiler_kind {
  RAILWISE_PROFILER_SEND = 1,    /* one part of a message on one queue pair; a small message is one part */
  RAILWISE_PROFILER_RECEIVE = 2, /* one receive of a group, from its clear-to-send to its last part */
};

struct railwise_profiler_event_v1 {
  uint32_t kind;  /* enum railwise_profiler_kind */
  int32_t device; /* number of the device, as NCCL has it */
  int32_t rail;   /* which of the device's ports, from 0; -1: a receive, which may come over all of them */
  uint32_t qp_number; /* local; of a receive: the one that announced it */
  uint32_t opcode;    /* enum ibv_wr_opcode of a send; 0 for a receive */
  int32_t tag;
  uint64_t message; /* number of the receive on its connection, from 1; both ends count alike */
  uint64_t bytes;   /* of the part; of a receive: its room at the start, what came at the update */
};

#ifdef __cplusplus
}
#endif

#endif /* RAILWISE_PROFILER_H */
