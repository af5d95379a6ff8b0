// The software verbs device: RDMA between the processes of one machine (one user, one pid namespace) without
// hardware. Functions have the exact signatures and error conventions of ibv_*: integers are positive errno
// values, pointers are null with errno set. post_send, post_recv and poll_cq are reached through
// ibv_context.ops, so the inline functions of <infiniband/verbs.h> work on these objects. Thread-safe as
// verbs promises. Included only by verbs/library and tests. How it works: the thread that posts a send also
// executes it (moves the bytes, then writes both completions); no thread runs, except while a send waits for
// its receiver (progress.h). All queues that a peer touches live in one shared segment (segment.h) that
// vanishes with the last process attached to it (fabric.h).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/status.h"

namespace railwise::softdev {

// Sets the devices of this process from the text after "RAILWISE_DEVICE=software:" (grammar: config.h); null
// or "" is one default device. kInvalidUsage, after one WARN, when the text is wrong or differs while a
// device is open.
Status configure(const char* config);

ibv_device** getDeviceList(int* num_devices);
void freeDeviceList(ibv_device** list);
const char* getDeviceName(ibv_device* device);
ibv_context* openDevice(ibv_device* device);
int closeDevice(ibv_context* context);  // EBUSY while it has objects

int queryDevice(ibv_context* context, ibv_device_attr* attr);
int queryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr);
int queryPort(ibv_context* context, uint8_t port_num,
              _compat_ibv_port_attr* attr);  // a whole ibv_port_attr of v44
int queryGid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid);
int queryPkey(ibv_context* context, uint8_t port_num, int index, __be16* pkey);

ibv_pd* allocPd(ibv_context* context);
int deallocPd(ibv_pd* pd);
ibv_mr* regMr(ibv_pd* pd, void* addr, size_t length, int access);
ibv_mr* regMrIova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access);
ibv_mr* regDmabufMr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                    int access);  // EOPNOTSUPP
// Waits for the transfers that use the region; its keys fail afterwards.
int deregMr(ibv_mr* mr);

// `channel` must be null: completion events are not supported (EOPNOTSUPP).
ibv_cq* createCq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector);
int destroyCq(ibv_cq* cq);
ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attr);
int modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
int queryQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
int destroyQp(ibv_qp* qp);

int getAsyncEvent(ibv_context* context,
                  ibv_async_event* event);  // blocks: no event is produced in this version
void ackAsyncEvent(ibv_async_event* event);
const char* wcStatusStr(ibv_wc_status status);
const char* eventTypeStr(ibv_event_type event);
int forkInit();

// The configured sysfs path of the PCI device this device claims to be, "" when none.
const char* pciPath(const ibv_device* device);

// Exact counts since the context was opened. A work request counts when it is accepted; `bytes` is the
// payload of the accepted sends; `system_calls` are the process_vm_* calls that moved data.
struct Counters {
  uint64_t post_send_calls = 0;
  uint64_t writes = 0;
  uint64_t writes_with_imm = 0;
  uint64_t reads = 0;
  uint64_t sends = 0;  // with and without immediate data
  uint64_t send_sges = 0;
  uint64_t inline_sends = 0;
  uint64_t signalled_sends = 0;
  uint64_t receives = 0;
  uint64_t poll_calls = 0;
  uint64_t empty_polls = 0;
  uint64_t completions = 0;
  uint64_t bytes = 0;
  uint64_t system_calls = 0;
};
Counters counters(const ibv_context* context);

}  // namespace railwise::softdev
