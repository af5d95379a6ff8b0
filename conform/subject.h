// The plugin under test in this process: started, connected to itself, with registered memory. Nothing is
// closed by a destructor: after a failed check the process ends as it is.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "conform/check.h"

namespace railwise::conform {

using cli::NetApi;

// Throws Broken unless the call succeeded.
void must(ncclResult_t result, const char* call);
// Calls `step` until it returns true. Throws Broken if it does not in `limit`: "... has not come in 20 s".
void until(const std::string& what, const std::function<bool()>& step,
           Clock::duration limit = std::chrono::seconds(20));

// The plugin's init or devices has failed, or there is no device.
struct NotStarted : Broken {
  using Broken::Broken;
};

class Subject {
 public:
  explicit Subject(const cli::PluginOptions& options);
  NetApi& api() { return *loaded_.api; }
  int devices() const { return devices_; }
  cli::NetProperties properties(int device);
  // The number of buffers of a grouped receive.
  std::size_t mostTogether();
  // `wanted`, or as many connections as the plugin has room for (maxComms; each has two ends).
  std::size_t connections(std::size_t wanted);
  // Requests of a connection that are under way at once (NCCL_NET_MAX_REQUESTS; 8 up to NCCL 2.18).
  std::size_t window() { return api().version() == kOldestApi ? 8 : 32; }

 private:
  cli::LoadedPlugin& loaded_;
  int devices_ = 0;
};

// Both ends in this process, as in a job with several ranks per process.
struct Connection {
  Connection(Subject& subject, int send_device = 0, int receive_device = 0);
  void close();

  NetApi& api;
  void* listener = nullptr;
  void* send = nullptr;
  void* receive = nullptr;
};

// Pages that are registered with one end.
class Memory {
 public:
  // Filled with the pattern of `seed`; 0: with zeros.
  Memory(NetApi& api, void* comm, std::size_t bytes, unsigned seed = 0);
  void deregister();
  char* data() { return bytes_.data() + shift_; }
  void* handle() const { return handle_; }
  // The first byte of [from, from + bytes) that is not the pattern of `seed`, which begins at `from`; -1:
  // none.
  long firstWrong(std::size_t from, std::size_t bytes, unsigned seed) const;
  void fill(std::size_t from, std::size_t bytes, unsigned seed);

 private:
  NetApi& api_;
  void* comm_;
  std::vector<char> bytes_;
  std::size_t shift_;
  void* handle_ = nullptr;
};

struct Request {
  void* request = nullptr;
  bool done = false;
  int sizes[cli::kMaxGroup] = {};  // of a receive's buffers
};
void test(NetApi& api, Request& request);
// Post until the plugin takes it: it may answer with no request as long as the peer is not ready, or its own
// places are taken. `open`: what is under way, which is tested as long as the plugin takes nothing, as NCCL's
// progress thread does.
Request startSend(NetApi& api, void* comm, char* data, std::size_t bytes, int tag, void* handle,
                  std::span<Request> open = {});
Request startReceive(NetApi& api, void* comm, std::span<const NetApi::Buffer> buffers,
                     std::span<Request> open = {});
// Tests until the request is done, and `open` with it.
void finish(NetApi& api, Request& request, std::span<Request> open = {});

// One message into `buffer`. Returns the size that the receive tells.
int carry(Connection& connection, char* data, std::size_t bytes, int tag, void* handle,
          const NetApi::Buffer& buffer);
// "": the message has its size and its data, which begin at `from`. Else the end of a sentence about it.
std::string wrongOf(const Memory& memory, std::size_t from, std::size_t bytes, int said, unsigned seed);
// The pattern of a message of many.
inline unsigned seedOf(std::size_t number) { return static_cast<unsigned>(number % 200 + 1); }
// One message through the connection, verified.
void tryOut(Connection& connection, std::size_t bytes = 4096);

// A child of fork() that runs `body`. It is killed with the Process.
Process forked(const std::function<int(std::string& answer)>& body);

// Another process with the same plugin, at the other end of a channel.
class Peer {
 public:
  using Body = std::function<void(int channel)>;
  explicit Peer(const Body& body);
  int channel() const { return channel_.get(); }
  void kill();
  void pause();
  void resume();
  // Throws Broken if the peer did.
  void join();

 private:
  Descriptor channel_;
  std::optional<Process> process_;
};
void tell(int channel, std::span<const char> bytes);
void hear(int channel, std::span<char> bytes);

}  // namespace railwise::conform
