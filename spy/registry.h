// All that the spy knows: devices, communicators, listeners and connections, open and closed, and the calls
// that belong to no connection. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spy/connection.h"

namespace railwise::spy {

// The functions that are counted for the whole process. Those of a connection's requests are counted there.
#define RAILWISE_SPY_FUNCTIONS(X)              \
  X(Function, kInit, "init")                   \
  X(Function, kDevices, "devices")             \
  X(Function, kGetProperties, "getProperties") \
  X(Function, kMakeVDevice, "makeVDevice")     \
  X(Function, kListen, "listen")               \
  X(Function, kConnect, "connect")             \
  X(Function, kAccept, "accept")               \
  X(Function, kRegMr, "regMr")                 \
  X(Function, kRegMrDmaBuf, "regMrDmaBuf")     \
  X(Function, kDeregMr, "deregMr")             \
  X(Function, kCloseSend, "closeSend")         \
  X(Function, kCloseRecv, "closeRecv")         \
  X(Function, kCloseListen, "closeListen")     \
  X(Function, kGetDeviceMr, "getDeviceMr")     \
  X(Function, kIrecvConsumed, "irecvConsumed") \
  X(Function, kFinalize, "finalize")           \
  X(Function, kSetNetAttr, "setNetAttr")       \
  X(Function, kIput, "iput")                   \
  X(Function, kIputSignal, "iputSignal")       \
  X(Function, kIget, "iget")
enum class Function : uint8_t { RAILWISE_SPY_FUNCTIONS(RAILWISE_ENUMERATOR) };
inline constexpr Named<Function> kFunctionNames[] = {RAILWISE_SPY_FUNCTIONS(RAILWISE_NAMED)};
inline const char* functionName(Function function) { return rowOf(kFunctionNames, function).words; }

struct FunctionCounts {
  std::atomic<uint64_t> calls = 0;
  std::atomic<uint64_t> errors = 0;
  std::atomic<uint64_t> ns = 0;
  std::atomic<uint64_t> longest_ns = 0;
};

// A connection as the report shows it.
struct ConnectionReport {
  uint64_t number = 0;
  record::Side side = record::Side::kSender;
  std::string device;
  uint64_t communicator = 0;
  uint64_t setup_ns = 0;
  bool closed = false;  // by NCCL
  std::size_t memory_left = 0;
  Figures figures;
};

class Registry {
 public:
  static Registry& get();

  // ---- calls

  void count(Function function, const Call& call);
  const FunctionCounts& counts(Function function) const {
    return counts_[static_cast<std::size_t>(function)];
  }

  // ---- one-sided communication

  void addOneSided(const record::OneSidedTotals& more);

  // ---- devices

  void keep(const Device& device);
  std::optional<Device> device(int index);

  // ---- communicators, listeners, connections

  Context* begin(void* inner, uint64_t communicator, int traffic_class);
  // Everything of the communicator that is still open ends with it.
  void end(Context& context);
  Listener* addListener(void* inner, Device device, Context* context);
  void close(Listener& listener);
  // `key`: what connect or accept was called with. The attempt begins with the first call.
  void attempt(const void* key, uint64_t now);
  void giveUp(const void* key);
  Connection* addConnection(record::Side side, void* inner, const Device& device, Context* context,
                            const void* key);
  void close(Connection& connection);
  // No communicator and no connection is open.
  bool idle();

  // ---- the report

  struct Report {
    std::vector<ConnectionReport> connections;
    uint64_t forgotten = 0;     // closed connections that are not in `connections`
    std::size_t listeners = 0;  // open, or left open when their communicator ended
    record::OneSidedTotals one_sided = {};
  };
  Report report();

 private:
  ConnectionReport reportOf(Connection& connection, bool closed);
  void bury(std::unique_ptr<Connection> connection, bool closed);

  std::array<FunctionCounts, std::size(kFunctionNames)> counts_;
  std::mutex mutex_;
  std::unordered_map<int, Device> devices_;
  std::deque<Context> contexts_;  // never freed: NCCL may call with one that has ended
  std::unordered_map<const void*, uint64_t> attempts_;
  std::unordered_map<Listener*, std::unique_ptr<Listener>> listeners_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> open_;
  std::deque<std::unique_ptr<Listener>> closed_listeners_;
  std::deque<std::unique_ptr<Connection>> closed_;
  Report ended_;  // of connections that are closed, and listeners that were left open
  std::size_t communicators_ = 0;
};

}  // namespace railwise::spy
