// The bootstrap network of a perf job: TCP, a star around rank 0. It carries small collective calls (handles,
// times, counts) and watches over the job: every rank keeps its connection open, so a rank that dies is
// noticed at once, by name, everywhere; a failure is told to all; and a job in which nobody makes progress is
// ended.
//
// The collective calls belong to the main thread; fail() may be called by any. A monitor thread is the only
// reader of the sockets. When the job has failed it calls `on_failure` once, from the monitor thread; the
// command prints the text and ends the process there, since a plugin call of another thread may never return.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/socket.h"
#include "base/status.h"
#include "perf/job/wire.h"

namespace railwise::tools {

// How the words of a failure begin when a job was ended because nobody moved.
inline constexpr const char* kNoProgress = "no progress for ";

struct Peer {
  int rank = 0;
  pid_t pid = 0;
  std::string host;
  // "rank 2 (pid 123 on host x)".
  std::string text() const;
};

struct BootstrapOptions {
  int rank = 0;
  int size = 1;
  SocketAddress address;  // of rank 0
  Socket listener;        // rank 0, may be invalid: then it listens on `address`
  std::string secret;
  std::string agreement;                               // what must be equal in all ranks, in words
  Clock::duration timeout = std::chrono::seconds(60);  // for joining, and without any progress afterwards
  std::function<uint64_t()> progress = [] { return uint64_t{0}; };    // grows while this rank makes progress
  std::function<std::string()> doing = [] { return std::string(); };  // "waiting for ..."; any thread
  std::function<void(const std::string&)> on_failure = [](const std::string&) {};
};

class Bootstrap {
 public:
  // Waits until all ranks are there. `error` says what is wrong when it fails.
  static Result<std::unique_ptr<Bootstrap>> join(BootstrapOptions options, std::string* error);
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  // Every rank calls these in the same order. Errors: kRemote, the job has failed (on_failure says how).
  Status barrier();
  // Block r of the answer came from rank r.
  Result<std::vector<Bytes>> allGather(const Bytes& mine);
  // Block p goes to rank p; block p of the answer came from rank p.
  Result<std::vector<Bytes>> exchange(const std::vector<Bytes>& blocks);
  // Ends the job in order: returns when all ranks have called it.
  Status leave();

  // This rank has failed: tells the others and brings on_failure() about. Only the first text counts.
  virtual void fail(const std::string& text) = 0;

 protected:
  explicit Bootstrap(BootstrapOptions options) : options_(std::move(options)) {}
  virtual Status sendBlock(int to, const Bytes& block) = 0;
  virtual Result<Bytes> receiveBlock(int from) = 0;
  virtual Status sayGoodbye() = 0;

  BootstrapOptions options_;
  std::vector<Peer> peers_;

 private:
  Result<std::vector<Bytes>> gather(const Bytes& mine);
  Result<Bytes> scatter(const std::vector<Bytes>& blocks);
};

}  // namespace railwise::tools
