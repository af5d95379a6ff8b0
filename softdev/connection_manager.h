// The software device's RDMA connection manager: the functions of librdmacm that Railwise needs, with the
// signatures and error conventions of librdmacm (0, or -1 with errno; pointers null with errno). It works for
// devices of any link layer, within a process and between the processes of a fabric. It finds a port of the
// fabric by the addresses of the port's GID table, or on iWARP by the addresses of the port's interface. Port
// numbers are per address. It sends only over abstract unix sockets, which vanish with their process. It has
// no thread: getEvent() reads what a peer has sent. Events and their order are those of rdma_get_cm_event(3),
// without two events that need no answer (TIMEWAIT_EXIT, ADDR_CHANGE). Thread-safe, as librdmacm is.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace railwise::softdev::cm {

// The application may poll the descriptor and make it non-blocking. getEvent() then fails with EAGAIN.
rdma_event_channel* createEventChannel();
void destroyEventChannel(rdma_event_channel* channel);
int getEvent(rdma_event_channel* channel, rdma_cm_event** event);
int ackEvent(rdma_cm_event* event);

int createId(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps);
int destroyId(rdma_cm_id* id);  // waits until the events of `id` are acknowledged
int migrateId(rdma_cm_id* id, rdma_event_channel* channel);
int bindAddr(rdma_cm_id* id, sockaddr* address);
int resolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms);
int resolveRoute(rdma_cm_id* id, int timeout_ms);
__be16 getSrcPort(rdma_cm_id* id);
// Sets the type of service or the acknowledge timeout count. Accepts other options of RDMA_OPTION_ID and
// ignores them.
int setOption(rdma_cm_id* id, int level, int name, void* value, size_t bytes);

int createQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr);
void destroyQp(rdma_cm_id* id);
int initQpAttr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask);

int listen(rdma_cm_id* id, int backlog);
int connect(rdma_cm_id* id, rdma_conn_param* parameters);
int accept(rdma_cm_id* id, rdma_conn_param* parameters);
int reject(rdma_cm_id* id, const void* private_data, uint8_t bytes);
int establish(rdma_cm_id* id);
int disconnect(rdma_cm_id* id);

// Writes the addresses by which the connection manager finds a port, best first, at most `most`. Returns how
// many it has written.
int localAddresses(ibv_context* context, uint8_t port, ibv_gid* addresses, int most);

}  // namespace railwise::softdev::cm
