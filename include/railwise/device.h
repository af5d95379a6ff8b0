/* What the software verbs device tells about itself, for C (C99) and C++. The functions lie in the drop-in
 * libibverbs.so.1 and in librailwise-device.so (lib/railwise-verbs/) only; a program that also runs on real
 * libibverbs finds them so:
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

/* The rest is for programs that load this library by itself, as Railwise's plugin loads
 * librailwise-device.so, and find its functions by dlsym: what verbs cannot say. */

/* Takes a line of the device's log, without a newline. `level`: 2 warning, 3 information, 5 trace.
 * `subsystems`: NCCL's mask. `where`: a source file (level 2) or a function. */
typedef void (*railwise_device_log)(int level, unsigned long subsystems, const char* where, int line,
                                    const char* format, ...);

/* Chooses the devices, instead of the environment; before the first list of devices. `devices`: what stands
 * behind RAILWISE_DEVICE=software: ("": the default machine). `host`, `fabric`: RAILWISE_HOST,
 * RAILWISE_FABRIC ("": unset). `log`: where warnings go, while the library is loaded; NULL: stderr. Returns
 * 0, or after one warning EINVAL (the text is wrong), EBUSY (a device is open, and the text differs) or
 * ENOMEM. */
int railwise_device_configure(const char* devices, const char* host, const char* fabric,
                              railwise_device_log log);

struct ibv_device;

/* The path below /sys of the PCI device that this device claims to be; "": none. */
const char* railwise_device_pci_path(const struct ibv_device* device);

/* How the device claims to reach GPU memory: bits of these. */
enum { RAILWISE_DEVICE_GPU_BY_ADDRESS = 1, RAILWISE_DEVICE_GPU_BY_DMABUF = 2 };
unsigned railwise_device_gpu_memory(const struct ibv_device* device);

/* Two devices reach each other exactly if these numbers are equal. Never 0. */
uint64_t railwise_device_fabric(const struct ibv_context* context);

/* The devices' connection manager: the function of librdmacm with this name ("rdma_connect"), or NULL. One
 * name is not librdmacm's: "railwise_local_addresses" writes at most `most` addresses by which the manager
 * finds a port, best first, and returns how many: int railwise_local_addresses(struct ibv_context*, uint8_t
 * port, union ibv_gid* addresses, int most) */
void* railwise_device_cm(const char* function);

#ifdef __cplusplus
}
#endif

#endif
