// The objects of the software connection manager, and what its files share. One mutex guards everything here,
// because connections are made seldom. Each object begins with its rdma_ struct.
#pragma once

#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "softdev/cm/address.h"
#include "softdev/connection_manager.h"

namespace railwise::softdev::cm {

// Limits of the private data that messages carry (rdma_connect(3), rdma_accept(3), rdma_reject(3)).
constexpr uint8_t kRequestBytes = 56;
constexpr uint8_t kReplyBytes = 196;
constexpr uint8_t kRejectBytes = 148;
// Reasons of a rejection on InfiniBand and RoCE (InfiniBand specification, table 110).
constexpr int kReasonNobody = 8;     // invalid service: nobody listens
constexpr int kReasonConsumer = 28;  // the peer does not want the connection, or has gone

enum class Kind : uint32_t { kRequest, kReply, kReady, kReject, kDisconnect };

// A message as it travels over the socket of a connection, always whole.
struct Message {
  uint64_t magic;
  Kind kind;
  uint32_t qp_num;
  Address from;
  Address to;
  uint8_t gid[16];  // iWARP: GID of the sender's device, which identifies the port
  uint32_t lid;
  uint32_t mtu;
  uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
  uint8_t reason;
  uint8_t bytes;  // length of private_data
  uint8_t private_data[kReplyBytes];
};
constexpr uint64_t kMessageMagic = 0x3130'6d63'7772'0001;  // the last digit is the version

struct Id;

struct Event : rdma_cm_event {
  Id* counted = nullptr;  // the id that waits for the acknowledgement of this event
  uint8_t private_data[kReplyBytes] = {};
};

struct Channel : rdma_event_channel {
  int signal_fd = -1;        // in the epoll set `fd`: readable while `ready` is not empty
  std::deque<Event*> ready;  // events that the application has not fetched yet
};

enum class State {
  kIdle,
  kBound,
  kAddressResolved,
  kRouteResolved,
  kListening,
  kCalled,      // passive side: the socket is connected, the request has not arrived yet
  kRequested,   // passive side: the application must accept or reject the request
  kAccepted,    // passive side: the reply is sent
  kConnecting,  // active side: the request is sent
  kResponded,   // active side: the reply has arrived, and the application must bring its queue pair up
  kUp,
  kOver,
};

struct Id : rdma_cm_id {
  uint64_t serial = 0;  // identifies the id in the channel's epoll set
  State state = State::kIdle;
  Device* device = nullptr;  // the device of the context `verbs`
  Address source;
  Address destination;
  // The socket of the connection; a listener on every address has one socket for each address.
  std::vector<int> sockets;
  uint64_t listener = 0;  // passive side: serial of the listener, until the request is answered
  int backlog = 0;
  int unanswered = 0;  // listener: number of unanswered requests
  uint32_t events_given = 0;
  uint32_t events_acknowledged = 0;
  uint8_t traffic_class = 0;
  uint8_t ack_timeout = 0;  // 0: not set
  // Parameters of the connection.
  uint32_t qp_num = 0;
  uint8_t responder_resources = 1;
  uint8_t initiator_depth = 1;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  Message remote{};  // the last request or reply of the peer

  bool iwarp() const { return device != nullptr && device->config.iwarp(); }
  Channel& events() { return *static_cast<Channel*>(channel); }
};

// A context of the manager's own. After the device has failed there is another one, as in librdmacm of
// rdma-core 39 and later; the ids that use the dead one keep it.
struct OpenDevice {
  Device* device;
  ibv_context* context;
  int uses;
};

struct Manager {
  std::mutex mutex;
  std::condition_variable acknowledged;
  uint64_t last_serial = 0;
  std::map<uint64_t, Id*> ids;
  std::list<OpenDevice> devices;
};
Manager& manager();

// The caller of every function below holds the mutex.

Id* newId(Channel& channel, void* context, rdma_port_space ps);
// Closes everything that the id has and forgets the id. No event of the id may be unacknowledged.
void deleteId(Id& id);
void closeSockets(Id& id);
// Puts the sockets of the id into the channel's epoll set.
void watch(Id& id);
// Makes sockets for the address, with a port number chosen by the system if it is 0. Also sets the device,
// unless the address is "every address". Returns 0 or an errno (bind.cc).
int bindHere(Id& id, Address address);
// Has a port of the device this address now? The fabric may have changed it since the device was configured.
bool hasAddressNow(Device& device, const Address& address, uint8_t* port);
// Binds the id to a device. Returns 0 or an errno. EINVAL: the id has another device, which it keeps.
int useDevice(Id& id, Device& device, uint8_t port);
void leaveDevice(Id& id);
const PortRecord& portOf(const Id& id);

// Raises an event of `id` with the parameters of the connection from `message` (null: none).
void raise(Id& id, rdma_cm_event_type type, int status, const Message* message = nullptr);
void raiseRequest(Id& listener, Id& id);

// Reads what has arrived on the sockets of an id (messages.cc).
void readSockets(Id& id);
bool sendMessage(Id& id, Kind kind, const rdma_conn_param* parameters, const void* private_data,
                 uint8_t bytes, uint8_t reason = 0);
// Called when a request is answered or void: its listener has room for another request.
void countAnswered(Id& id);
// The status of an event that reports that nobody listens, or that the peer has gone. iWARP has an errno
// there.
int refusedStatus(const Id& id, int reason);

// The attributes for the queue pair (queue_pairs.cc). Returns 0 or an errno.
int attributes(Id& id, ibv_qp_attr* attr, int* mask);
// Brings the queue pair to RTS if that is the manager's task: on iWARP, or if `id.qp` is set.
int bringUp(Id& id);
void bringDown(Id& id);

// Converts an errno to the answer of a call: -1 with errno set, or 0.
int answer(int error);

}  // namespace railwise::softdev::cm
