// How the ends of `railwise doctor --pair` find each other: TCP, with the process that a person started in
// the centre (perf/job/bootstrap.h). Main thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/outcome.h"
#include "base/process.h"
#include "base/socket.h"
#include "doctor/pair/measuring/conduct.h"
#include "doctor/pair/measuring/open_end.h"
#include "perf/job/bootstrap.h"
#include "topo/machine/machine.h"

namespace railwise::cli {

struct PairSeat {
  int rank = 0;
  int size = 2;
  std::string secret;
  std::string agreement;  // options that must be equal at all ends
  std::string waits_for;  // why rank 0 expects others that were not started here: "SLURM_NTASKS=2"
  std::vector<std::string> addresses;  // HOST:PORT of rank 0; the first that answers is taken
  std::chrono::seconds step_limit{0};  // how long a step of the test may take
  Socket listener;                     // of rank 0, if it listens already
};

// The line that an end reads from its standard input: the secret and the addresses. A secret on a command
// line would be shown to every user of the host.
std::string contactLine(const PairSeat& seat);
Outcome<void> readContactLine(const std::string& line, PairSeat& seat);

// Rank 0 of ends that are started here: listens on all interfaces, and makes the secret. `only_here`: on the
// loopback interface alone. `address`: what the ends are to connect to; "": the addresses of this host.
Outcome<void> openSeat(PairSeat& seat, bool only_here, const std::string& address);

// Waits until all ends are there. If one goes later, the process ends with a message that names it.
class PairExchange : public doctor::pair::Exchange {
 public:
  static Outcome<std::unique_ptr<PairExchange>> join(PairSeat seat);

  std::size_t rank() const override { return static_cast<std::size_t>(bootstrap_->rank()); }
  std::size_t size() const override { return static_cast<std::size_t>(bootstrap_->size()); }
  Outcome<std::vector<doctor::pair::Bytes>> allGather(const doctor::pair::Bytes& mine) override;
  void leave() { (void)bootstrap_->leave(); }
  // Tells all ends why the test cannot go on. The process ends.
  [[noreturn]] void fail(const std::string& text);

 private:
  std::atomic<uint64_t> steps_{0};
  std::unique_ptr<Bootstrap> bootstrap_;
};

// Starts the other ends of `railwise doctor --pair`: over ssh, by another command, or on this machine. If one
// ends before it has joined, the command ends with a message that names it. Main thread; start() before any
// thread runs.

struct PairCommand {
  std::string host;                                              // for messages
  std::vector<std::string> words;                                // the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
};

class PairLaunch {
 public:
  PairLaunch() = default;
  PairLaunch(const PairLaunch&) = delete;
  PairLaunch& operator=(const PairLaunch&) = delete;
  ~PairLaunch();

  // `contact` is written to the standard input of each.
  Outcome<void> start(const std::vector<PairCommand>& commands, const std::string& contact);
  // Watches until joined() is called.
  void watch();
  void joined() { joined_ = true; }

 private:
  struct Child {
    Process process;  // its input stays open while this process lives
    std::string host;
    std::string program;
  };
  bool anyEnded();
  void reportAndLeave();

  std::vector<Child> children_;
  std::atomic<bool> joined_{false};
  std::thread watcher_;
};

// This process's end of `railwise doctor --pair`: its devices, the /sys that describes them, and what the
// model says of the machine.

struct PairEndOptions {
  std::string nics;        // NCCL_IB_HCA's form; "": NCCL_IB_HCA
  bool gpu = false;        // the data lie in memory of GPUs
  bool takes_part = true;  // false: only coordinate
  topo::NcclVersion rules = topo::NcclVersion::kNewest;
};

struct PairEnd {
  doctor::pair::OpenEnd end;
  std::optional<topo::Machine> machine;  // none: the model cannot read it, or the end takes no part
};

// Never fails: what is wrong with the devices is in the facts. Loads the verbs library. Main thread, before
// other threads start: it may start processes that ask for the GPUs.
PairEnd openPairEnd(const PairEndOptions& options);

}  // namespace railwise::cli
