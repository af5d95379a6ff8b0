// The software verbs device: RDMA between the processes of one machine (one user, one pid namespace) without
// hardware. The functions have exactly the signatures and error conventions of ibv_*: integers are positive
// errno values, pointers are null with errno set. post_send, post_recv and poll_cq are reached through
// ibv_context.ops, so the inline functions of <infiniband/verbs.h> work on these objects. Thread-safe as
// verbs promises. Included only by drop_in/, tools and tests.
// How it works: the thread that posts a send also executes it (moves the bytes, then writes both
// completions). No thread runs, except while a send waits for its receiver (engine/progress.h). All queues
// that a peer uses lie in one shared segment (fabric/segment.h), which vanishes with the last process
// attached to it (fabric/fabric.h).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/status.h"

namespace railwise::softdev {

// Sets the devices of this process from the text after "RAILWISE_DEVICE=software:" (grammar:
// config/config.h); null or "" gives the default machine. `host` is RAILWISE_HOST: which host of the machine
// this process plays (null or "": the text decides). `fabric` is RAILWISE_FABRIC: the fabric, if the text
// names none (null or "": default). kInvalidUsage, after one WARN: the text is wrong, or it differs from the
// text in use while a device is open.
Status configure(const char* config, const char* host = nullptr, const char* fabric = nullptr);

ibv_device** getDeviceList(int* num_devices);
void freeDeviceList(ibv_device** list);
const char* getDeviceName(ibv_device* device);
uint64_t getDeviceGuid(ibv_device* device);  // network order
ibv_context* openDevice(ibv_device* device);
int closeDevice(ibv_context* context);  // EBUSY while the context has objects

int queryDevice(ibv_context* context, ibv_device_attr* attr);
// Writes at most `attr_size` bytes.
int queryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                  size_t attr_size);
int queryRealTime(ibv_context* context, ibv_values_ex* values);  // reads the clock of completion timestamps
int queryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr);
// Writes at most `attr_size` bytes. Also writes fields that are newer than our headers (active_speed_ex).
int queryPortSized(ibv_context* context, uint8_t port_num, ibv_port_attr* attr, size_t attr_size);
int queryPortSpeed(ibv_context* context, uint32_t port_num, uint64_t* speed);  // in units of 100 Mb/s
int queryGid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid);
int queryGidEx(ibv_context* context, uint32_t port_num, uint32_t index, ibv_gid_entry* entry, uint32_t flags,
               size_t entry_size);
// Returns the number of valid entries of all ports, or a negative errno.
ssize_t queryGidTable(ibv_context* context, ibv_gid_entry* entries, size_t max_entries, uint32_t flags,
                      size_t entry_size);
int queryPkey(ibv_context* context, uint8_t port_num, int index, __be16* pkey);

ibv_pd* allocPd(ibv_context* context);
int deallocPd(ibv_pd* pd);
ibv_mr* regMr(ibv_pd* pd, void* addr, size_t length, int access);
ibv_mr* regMrIova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access);
// EBADF: there is no such fd. EOPNOTSUPP: the fd cannot be mapped (a memory file can).
ibv_mr* regDmabufMr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
int reregMr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access);
// Waits for the transfers that use the region. Its keys fail afterwards.
int deregMr(ibv_mr* mr);

ibv_ah* createAh(ibv_pd* pd, ibv_ah_attr* attr);
int destroyAh(ibv_ah* ah);

ibv_comp_channel* createCompChannel(ibv_context* context);
int destroyCompChannel(ibv_comp_channel* channel);  // EBUSY while CQs report to it
int getCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void ackCqEvents(ibv_cq* cq, unsigned int events);
ibv_cq* createCq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* createCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr);
int resizeCq(ibv_cq* cq, int cqe);
int destroyCq(ibv_cq* cq);  // waits until the events of `cq` are acknowledged

ibv_srq* createSrq(ibv_pd* pd, ibv_srq_init_attr* attr);
ibv_srq* createSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr);
int modifySrq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
int querySrq(ibv_srq* srq, ibv_srq_attr* attr);
int getSrqNum(ibv_srq* srq, uint32_t* srq_num);
int destroySrq(ibv_srq* srq);

ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attr);
ibv_qp* createQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_qp_ex* qpToQpEx(ibv_qp* qp);  // null if the queue pair was made without send operations
int modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
int queryQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
int destroyQp(ibv_qp* qp);
int setEce(ibv_qp* qp, ibv_ece* ece);
int queryEce(ibv_qp* qp, ibv_ece* ece);

// Waits for the next event, unless the context's async_fd is non-blocking.
int getAsyncEvent(ibv_context* context, ibv_async_event* event);
void ackAsyncEvent(ibv_async_event* event);
const char* wcStatusStr(ibv_wc_status status);
const char* eventTypeStr(ibv_event_type event);
int forkInit();

// The configured sysfs path of the PCI device that this device claims to be; "" if there is none.
const char* pciPath(const ibv_device* device);
// Does the device claim to reach GPU memory: by address (regMr), or by dma-buf (regDmabufMr)?
bool takesGpuAddresses(const ibv_device* device);
bool takesGpuDmabufs(const ibv_device* device);
// Identifies the fabric of an open device. Two identities are equal exactly if both devices can reach each
// other. Random, never 0.
uint64_t fabricIdentity(const ibv_context* context);

// Exact counts since the context was opened. A work request counts when it is accepted. `bytes` is the
// payload of the accepted sends. `system_calls` counts the process_vm_* calls that moved data.
struct Counters {
  uint64_t post_send_calls = 0;
  uint64_t writes = 0;
  uint64_t writes_with_imm = 0;
  uint64_t reads = 0;
  uint64_t sends = 0;    // with and without immediate data
  uint64_t atomics = 0;  // compare and swap, fetch and add
  uint64_t send_sges = 0;
  uint64_t inline_sends = 0;
  uint64_t signalled_sends = 0;
  uint64_t receives = 0;
  uint64_t post_recv_calls = 0;
  uint64_t poll_calls = 0;
  uint64_t empty_polls = 0;
  uint64_t completions = 0;
  uint64_t bytes = 0;
  uint64_t system_calls = 0;
};
Counters counters(const ibv_context* context);
// Counts of one queue pair since its creation. Polls and completions belong to completion queues and are 0
// here. Receives are 0 if the queue pair has a shared receive queue.
Counters qpCounters(const ibv_qp* qp);

}  // namespace railwise::softdev
