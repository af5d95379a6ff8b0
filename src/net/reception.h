// Where callers arrive: a TCP socket whose address is in the listen handle, and the callers that have not yet
// proven who they are. A caller that proves that it knows the handle's secret is a peer (authentication.h).
// All other callers are strangers (port scanners, health checks, other plugins, enemies): they are dropped,
// and the first one is logged. Never blocks. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/clock.h"
#include "net/paths/connection_options.h"
#include "net/wireup/authentication.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

// A caller that has connected. On the heap, because the transfer points into it.
struct Caller {
  Socket socket;
  Deadline deadline = Deadline::after({});
  bool proven = false;  // its hello is right: it is a peer, or somebody lets a peer's bytes through
  ConnectRequest request = {};
  Transfer transfer = {};
};

class Reception {
 public:
  using Take = std::function<void(std::unique_ptr<Caller>)>;

  // `most_calls`: so many calls is the handle good for; each one is taken once. Errors: kSystem, logged;
  // kInvalidUsage if NCCL_SOCKET_IFNAME matches no interface.
  static Result<std::unique_ptr<Reception>> create(const Device& device, const ConnectionOptions& options,
                                                   ListenerKind kind, std::size_t most_calls);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  const ListenHandle& handle() const { return handle_; }
  // Hears all callers, and admits those that have called. `take` gets each caller whose whole request is
  // proven. Once it has got `most`, no more are admitted now.
  void hear(const Take& take, std::size_t most = SIZE_MAX);
  // Drops the callers that have not proven anything.
  void dropCallers() { callers_.clear(); }
  // Takes no call any more, so that a peer that calls hears so at once.
  void close() { socket_.shutdown(); }

 private:
  Reception(const Device& device, const ConnectionOptions& options, std::size_t most_calls)
      : device_(device), config_(options.config), most_calls_(most_calls) {}

  Status openSocket();
  // Did this caller connect to an address that the handle names?
  bool atOurAddress(const Socket& socket) const;
  void admitCallers(const Take& take, std::size_t most);
  void makeRoom();
  void hearCallers(const Take& take);
  enum class Hearing : uint8_t { kWait, kPeer, kDrop };
  Hearing hear(Caller& caller, std::string& reason);
  std::string checkHello(Caller& caller);
  // Hears a caller. False: it is no caller any more.
  bool keeps(std::unique_ptr<Caller>& caller, const Take& take);
  void noteStranger(const Caller& caller, const std::string& reason);

  const Device& device_;
  const Config& config_;
  const std::size_t most_calls_;
  ListenHandle handle_ = {};
  Socket socket_;
  std::vector<SocketAddress> addresses_;  // addresses at which a peer may call
  std::vector<std::unique_ptr<Caller>> callers_;
  std::set<std::array<uint8_t, sizeof(Random)>> heard_;  // of all callers whose hello was right
  std::size_t taken_ = 0;                                // so many callers has `take` got in this hear()
  bool stranger_logged_ = false;
  bool accept_failure_logged_ = false;
};

}  // namespace railwise::net
