// The verbs functions that Railwise calls, in one table. The table is filled from libibverbs.so.1, or from
// the software device's librailwise-device.so (dlopen, versioned symbols). Post and poll go through
// ibv_context.ops, as rdma-core's own inline functions do. One table is in force per process. Only the owner
// of all handles (net::Net) calls load() and unload(), under its lock. After load() the table is constant and
// any thread may read it.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/settings/config.h"
#include "base/status.h"

namespace railwise::verbs {

struct Library {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  __be64 (*get_device_guid)(ibv_device* device);  // the node GUID
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes);
  int (*query_gid)(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
  int (*query_pkey)(ibv_context* context, uint8_t port, int index, __be16* pkey);
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length, int access);
  int (*dereg_mr)(ibv_mr* mr);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* cq);
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init);
  int (*destroy_qp)(ibv_qp* qp);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);
  int (*fork_init)();
  const char* (*wc_status_str)(ibv_wc_status status);

  // Optional functions: null if this libibverbs does not have them.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
  // This variant knows which access flags the kernel accepts, and drops the others (relaxed ordering).
  ibv_mr* (*reg_mr_iova2)(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access);
  int (*query_ece)(ibv_qp* qp, ibv_ece* ece);
  int (*set_ece)(ibv_qp* qp, ibv_ece* ece);
  int (*query_gid_ex)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_size);
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, size_t max_entries, uint32_t flags,
                             size_t entry_size);                                  // for all ports
  int (*query_port_speed)(ibv_context* context, uint32_t port, uint64_t* speed);  // in units of 100 Mb/s

  // The PCI path that a software device claims; "" if it claims none. Null for real devices:
  // /sys/class/infiniband has their path.
  const char* (*pci_path)(const ibv_device* device);
  // How a software device claims to reach GPU memory: bits of railwise/device.h. Null for real devices: their
  // driver and the kernel decide.
  unsigned (*gpu_memory)(const ibv_device* device);
  // Identifies the fabric of a software device. Two identities are equal exactly if both devices can reach
  // each other. Never 0. Null for real devices.
  uint64_t (*fabric_identity)(const ibv_context* context);

  const char* name;  // "libibverbs" or "software device", for messages

  bool operator==(const Library&) const = default;
};

// The table in force; valid between load() and unload().
const Library& library();

// The file of the software device's library. "": it is not installed.
std::string softwareDeviceFile(const Config& config);

// Loads the library that config.device names. Errors, each logged once at WARN with what to install or set:
// kNoDevice if the library is missing, kInvalidUsage if RAILWISE_DEVICE is malformed.
Status load(const Config& config);
void unload();
// A thread is inside a function of the library that does not return, and nobody waits for it: unload() leaves
// the table and the library as they are from now on. Any thread.
void keepLoaded();

}  // namespace railwise::verbs
