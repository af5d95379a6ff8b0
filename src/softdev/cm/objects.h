// The objects of the software connection manager, and what its files share. Everything here is guarded by one
// mutex: connections are made seldom. Each object begins with its rdma_ struct.
#pragma once

#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "softdev/cm/address.h"
#include "softdev/connection_manager.h"

namespace railwise::softdev::cm {

// Private data that messages carry (rdma_connect(3), rdma_accept(3), rdma_reject(3)).
constexpr uint8_t kRequestBytes = 56;
constexpr uint8_t kReplyBytes = 196;
constexpr uint8_t kRejectBytes = 148;
// Reasons of a rejection on InfiniBand and RoCE (InfiniBand specification, table 110).
constexpr int kReasonNobody = 8;     // invalid service
constexpr int kReasonConsumer = 28;  // the other end does not want, or is gone

enum class Kind : uint32_t { kRequest, kReply, kReady, kReject, kDisconnect };

// What travels over the socket of a connection, whole.
struct Message {
  uint64_t magic;
  Kind kind;
  uint32_t qp_num;
  Address from;
  Address to;
  uint8_t gid[16];  // iWARP: the device's, which names its port
  uint32_t lid;
  uint32_t mtu;
  uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
  uint8_t reason;
  uint8_t bytes;  // of private data
  uint8_t private_data[kReplyBytes];
};
constexpr uint64_t kMessageMagic = 0x3130'6d63'7772'0001;  // the last digit is the version

struct Id;

struct Event : rdma_cm_event {
  Id* counted = nullptr;  // who waits for its acknowledgement
  uint8_t private_data[kReplyBytes] = {};
};

struct Channel : rdma_event_channel {
  int signal_fd = -1;        // in the set of `fd`: readable while `ready` is not empty
  std::deque<Event*> ready;  // not fetched yet
};

enum class State {
  kIdle,
  kBound,
  kAddressResolved,
  kRouteResolved,
  kListening,
  kCalled,      // passive: connected, the request is not here yet
  kRequested,   // passive: to be accepted or rejected
  kAccepted,    // passive: the reply is out
  kConnecting,  // active: the request is out
  kResponded,   // active: the reply is here, and the program is to bring its queue pair up
  kUp,
  kOver,
};

struct Id : rdma_cm_id {
  uint64_t serial = 0;  // names it in the channel's set
  State state = State::kIdle;
  Device* device = nullptr;  // whose context `verbs` is
  Address source;
  Address destination;
  std::vector<int> sockets;  // of the connection; of a listener on every address one for each
  uint64_t listener = 0;     // passive: serial, until it is answered
  int backlog = 0;
  int unanswered = 0;  // requests to this listener
  uint32_t events_given = 0;
  uint32_t events_acknowledged = 0;
  uint8_t traffic_class = 0;
  uint8_t ack_timeout = 0;  // 0: not set
  // Of the connection.
  uint32_t qp_num = 0;
  uint8_t responder_resources = 1;
  uint8_t initiator_depth = 1;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  Message remote{};  // the last request or reply

  bool iwarp() const { return device != nullptr && device->config.iwarp(); }
  Channel& events() { return *static_cast<Channel*>(channel); }
};

struct OpenDevice {
  ibv_context* context;
  int uses;
};

struct Manager {
  std::mutex mutex;
  std::condition_variable acknowledged;
  uint64_t last_serial = 0;
  std::map<uint64_t, Id*> ids;
  std::map<Device*, OpenDevice> devices;
};
Manager& manager();

// All below need the mutex.

Id* newId(Channel& channel, void* context, rdma_port_space ps);
// Closes what it has and forgets it; no event of it may be out.
void deleteId(Id& id);
void closeSockets(Id& id);
// Puts the sockets into the channel's set.
void watch(Id& id);
// Sockets on the address, with a port number of the system's choice for 0, and its device, unless it is every
// address: 0 or errno (bind.cc).
int bindHere(Id& id, Address address);
// Binds it to a device: 0 or errno. It keeps the one it has.
int useDevice(Id& id, Device& device, uint8_t port);
void leaveDevice(Id& id);
const PortRecord& portOf(const Id& id);

// An event of `id`, with what `message` says of the connection (null: nothing).
void raise(Id& id, rdma_cm_event_type type, int status, const Message* message = nullptr);
void raiseRequest(Id& listener, Id& id);

// What the sockets of an id have brought (messages.cc).
void readSockets(Id& id);
bool sendMessage(Id& id, Kind kind, const rdma_conn_param* parameters, const void* private_data,
                 uint8_t bytes, uint8_t reason = 0);
// A request that is to be answered, or is void: its listener has room for another.
void countAnswered(Id& id);
// How it says that nobody is there, or that the other end went.
int refusedStatus(const Id& id, int reason);

// The queue pair (queue_pairs.cc): 0 or errno.
int attributes(Id& id, ibv_qp_attr* attr, int* mask);
int bringUp(Id& id);  // to RTS, where the manager does that: iWARP, or `id.qp`
void bringDown(Id& id);

// -1 with errno, for an error; 0.
int answer(int error);

}  // namespace railwise::softdev::cm
