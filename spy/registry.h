// All that the spy knows: devices, communicators, listeners and connections, open and closed, and the calls
// that belong to no connection. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spy/connection.h"

namespace railwise::spy {

// The functions that are counted for the whole process. Those of a connection's requests are counted there.
enum class Function : uint8_t {
  kInit,
  kDevices,
  kGetProperties,
  kMakeVDevice,
  kListen,
  kConnect,
  kAccept,
  kRegMr,
  kRegMrDmaBuf,
  kDeregMr,
  kCloseSend,
  kCloseRecv,
  kCloseListen,
  kGetDeviceMr,
  kIrecvConsumed,
  kFinalize,
  kSetNetAttr,
  kIput,
  kIputSignal,
  kIget,
};
inline constexpr int kFunctions = 20;
const char* functionName(Function function);

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
  record::OneSidedTotals oneSided();

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
  // Communicators and connections that are open.
  std::size_t communicators();
  std::size_t openConnections();

  // ---- the report

  std::vector<ConnectionReport> connections();
  uint64_t forgotten();  // closed connections that are in no report
  std::size_t openListeners();
  std::size_t listenersLeft();  // open when their communicator ended

 private:
  ConnectionReport reportOf(Connection& connection, bool closed);
  void bury(std::unique_ptr<Connection> connection, bool closed);

  std::array<FunctionCounts, kFunctions> counts_;
  std::mutex mutex_;
  record::OneSidedTotals one_sided_ = {};
  std::unordered_map<int, Device> devices_;
  std::deque<Context> contexts_;  // never freed: NCCL may call with one that has ended
  std::unordered_map<const void*, uint64_t> attempts_;
  std::unordered_map<Listener*, std::unique_ptr<Listener>> listeners_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> open_;
  std::deque<std::unique_ptr<Listener>> closed_listeners_;
  std::deque<std::unique_ptr<Connection>> closed_;
  std::vector<ConnectionReport> reports_;
  uint64_t forgotten_ = 0;
  std::size_t listeners_left_ = 0;
  std::size_t communicators_ = 0;
};

}  // namespace railwise::spy
