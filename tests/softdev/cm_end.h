// The connection manager for tests: an event channel that is asked without waiting, and the steps that every
// connection takes. What cannot fail in a correct test throws std::runtime_error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "softdev/connection_manager.h"
#include "softdev/endpoint.h"

namespace railwise::softdev::test {

// An event, copied, and acknowledged.
struct CmEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_cm_id* listener;
  std::string private_data;
  rdma_conn_param conn;
};

class CmChannel {
 public:
  CmChannel();
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;
  operator rdma_event_channel*() const { return channel_; }  // NOLINT: stands for the channel

  CmEvent next();  // waits up to a minute
  // The next event, which must be of this type.
  CmEvent expect(rdma_cm_event_type type);
  bool empty();

 private:
  rdma_event_channel* channel_;
};

class CmId {
 public:
  explicit CmId(CmChannel& channel);
  explicit CmId(rdma_cm_id* id) : id_(id) {}
  CmId(CmId&& other) noexcept;
  ~CmId();
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;
  rdma_cm_id* operator->() const { return id_; }
  operator rdma_cm_id*() const { return id_; }  // NOLINT: stands for the id

 private:
  rdma_cm_id* id_;
};

// The address of a port for the connection manager, with a port number.
sockaddr_storage cmAddress(ibv_context* context, uint16_t port = 0, uint8_t number = 1);
sockaddr* raw(sockaddr_storage& address);
uint16_t portOf(const rdma_cm_id* id);

rdma_conn_param parameters(std::string_view private_data, uint32_t qp_num = 0);

// A listener on the first port of the device, on a port number that was free.
CmId listenOn(CmChannel& channel, ibv_context* context, uint16_t port = 0, int backlog = 0);
// An id that is ready for connect().
CmId resolved(CmChannel& channel, ibv_context* context, sockaddr_storage peer);
// The same, connecting.
CmId calling(CmChannel& channel, ibv_context* context, sockaddr_storage peer, rdma_conn_param wanted);

// Brings a queue pair of the program's own from INIT to RTS as the manager says.
void bringUp(rdma_cm_id* id, ibv_qp* qp);

}  // namespace railwise::softdev::test
