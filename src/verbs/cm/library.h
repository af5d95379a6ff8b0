// The functions of the RDMA communication manager that Railwise calls, in one table: from librdmacm.so.1
// (dlopen, versioned symbols) or from the software device, according to verbs::load(). librdmacm is opened at
// the first use, because most jobs need no manager. Conventions are those of librdmacm: 0, or -1 with
// errno; pointers null with errno. After that the table is constant and any thread may read it, until
// verbs::unload().
#pragma once

#include <rdma/rdma_cma.h>

#include <string>

#include "base/status.h"

namespace railwise::verbs {

struct CmLibrary {
  rdma_event_channel* (*create_event_channel)();
  void (*destroy_event_channel)(rdma_event_channel* channel);
  int (*get_cm_event)(rdma_event_channel* channel, rdma_cm_event** event);
  int (*ack_cm_event)(rdma_cm_event* event);
  int (*create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps);
  int (*destroy_id)(rdma_cm_id* id);
  int (*migrate_id)(rdma_cm_id* id, rdma_event_channel* channel);
  int (*bind_addr)(rdma_cm_id* id, sockaddr* address);
  int (*resolve_addr)(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms);
  int (*resolve_route)(rdma_cm_id* id, int timeout_ms);
  __be16 (*get_src_port)(rdma_cm_id* id);
  int (*set_option)(rdma_cm_id* id, int level, int name, void* value, size_t bytes);
  int (*init_qp_attr)(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask);
  int (*listen)(rdma_cm_id* id, int backlog);
  int (*connect)(rdma_cm_id* id, rdma_conn_param* parameters);
  int (*accept)(rdma_cm_id* id, rdma_conn_param* parameters);
  int (*reject)(rdma_cm_id* id, const void* private_data, uint8_t bytes);
  int (*establish)(rdma_cm_id* id);
  int (*disconnect)(rdma_cm_id* id);

  // Lists the addresses of a software device's port, best first. Null for real devices: the kernel has their
  // addresses.
  int (*local_addresses)(ibv_context* context, uint8_t port, ibv_gid* addresses, int most);

  const char* name;  // "librdmacm" or "software device", for messages

  bool operator==(const CmLibrary&) const = default;
};

// kNoDevice if there is no library, with one WARN that says what to install.
Result<const CmLibrary*> cmLibrary();
// Like cmLibrary(), for callers that hold an object made through the table.
const CmLibrary& cmLibraryInUse();

// For verbs::load() and unload(): the library is this file ("": none), or the software device, whose
// functions `function` returns (railwise_device_cm). Returns the name of a function that the device does not
// have, or null.
void setCmLibrary(const std::string& file);
const char* setSoftwareCm(void* (*function)(const char* name));

}  // namespace railwise::verbs
