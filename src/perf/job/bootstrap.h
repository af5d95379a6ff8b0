// The bootstrap network of a perf job: TCP, with rank 0 in the centre of a star. It carries small collective
// calls (handles, times, counts) and watches over the job. Every rank keeps its connection open, so all ranks
// notice at once which rank has died. A failure is reported to all ranks. A job in which no rank makes
// progress is ended.
//
// The main thread makes the collective calls. Any thread may call fail(). Only a monitor thread reads the
// sockets. If the job has failed, the monitor thread calls `on_failure` once. The command then prints the
// text and ends the process in this thread, because a plugin call of another thread may never return.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/socket.h"
#include "base/status.h"
#include "perf/job/wire.h"

namespace railwise::cli {

// How the text of a failure begins if a job was ended because no rank made progress.
inline constexpr const char* kNoProgress = "no progress for ";

struct Peer {
  int rank = 0;
  pid_t pid = 0;
  std::string host;
  // For example "rank 2 (pid 123 on host x)".
  std::string text() const;
};

struct BootstrapOptions {
  int rank = 0;
  int size = 1;
  SocketAddress address;  // address of rank 0
  Socket listener;        // only for rank 0; if it is invalid, rank 0 listens on `address`
  std::string secret;
  std::string agreement;  // text that must be equal in all ranks
  // For joining, and for time without progress afterwards.
  Clock::duration timeout = std::chrono::seconds(60);
  std::function<uint64_t()> progress = [] { return uint64_t{0}; };  // grows while this rank makes progress
  // For example "waiting for ..."; any thread may call it.
  std::function<std::string()> doing = [] { return std::string(); };
  // Rank 0: a process that knows the secret, and does not fit into the job, was refused. Unset: that ends the
  // job; otherwise rank 0 goes on waiting.
  std::function<void(const std::string& why)> on_refused;
  // Rank 0: called once if so many ranks have not joined after two seconds.
  std::function<void(int missing)> on_waiting = [](int) {};
  std::function<void(const std::string&)> on_failure = [](const std::string&) {};
};

class Bootstrap {
 public:
  // Waits until all ranks have joined.
  static Outcome<std::unique_ptr<Bootstrap>> join(BootstrapOptions options);
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  // Every rank makes these calls in the same order. Errors: kRemote, the job has failed (on_failure reports
  // how).
  Status barrier();
  // Block r of the result came from rank r.
  Result<std::vector<Bytes>> allGather(const Bytes& mine);
  // Rank 0 gets block r from rank r; the other ranks get nothing.
  Result<std::vector<Bytes>> gather(const Bytes& mine);
  // Block p goes to rank p. Block p of the result came from rank p.
  Result<std::vector<Bytes>> exchange(const std::vector<Bytes>& blocks);
  // Ends the job in order: returns when all ranks have called leave().
  virtual Status leave() = 0;

  // Reports to the other ranks that this rank has failed, and makes the monitor thread call on_failure().
  // Only the first text counts.
  virtual void fail(const std::string& text) = 0;

 protected:
  explicit Bootstrap(BootstrapOptions options) : options_(std::move(options)) {}
  virtual Status sendBlock(int to, const Bytes& block) = 0;
  virtual Result<Bytes> receiveBlock(int from) = 0;

  BootstrapOptions options_;
  std::vector<Peer> peers_;

 private:
  Result<Bytes> scatter(const std::vector<Bytes>& blocks);
};

// How the ranks of a job connect to each other (bootstrap.h).

// The job's connections: in rank 0 one per rank (null for rank 0 itself), in other ranks only the one to rank
// 0.
struct Joined {
  std::vector<std::unique_ptr<FrameChannel>> channels;
  std::vector<Peer> peers;
};

// Every rank connects to rank 0 and sends its description. When all ranks have joined, rank 0 sends the
// descriptions of all ranks to every rank. Connections that are not from a rank of this job (wrong bytes,
// wrong secret, silence) are ignored. Main thread.
Outcome<Joined> joinJob(const BootstrapOptions& options, Socket listener);

}  // namespace railwise::cli
