// How a rank's data travel: as messages of the net table (links.cc), or as puts and gets of the RMA table
// (windows.cc). The main thread starts and ends a table, the service thread makes and closes connections, the
// progress thread runs tasks and calls progress(). Any thread may call describe().
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/outcome.h"
#include "base/status.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/algorithm/data.h"
#include "perf/algorithm/plan.h"
#include "perf/job/wire.h"
#include "perf/job/worker.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// What all connections of a rank share.
struct RankContext {
  FailureNote& failure;
  const CallGate& gate;
  int rank;
  std::atomic<uint64_t>& received;  // bytes on all connections
  // Notes "<call> failed: <result in words>" as the rank's failure, and returns kRemote.
  Status failed(const std::string& call, ncclResult_t result) const {
    failure.set(call + " failed: " + resultText(result), result);
    return {Code::kRemote};
  }
};

struct LinkPlan {
  std::vector<int> send_to;
  std::vector<int> receive_from;
  int channels = 1;
  std::size_t slot_bytes = 4096;
  std::vector<int> devices = {0};
  int first_device = 0;  // channel c uses devices[(first_device + c) % devices.size()]

  int deviceOf(int channel) const {
    return devices[static_cast<std::size_t>(first_device + channel) % devices.size()];
  }
};

// The elements [first, first + count): what one channel moves of a block.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};

// A buffer whose first block has number `first_block`.
template <typename Byte>
struct BlockBuffer {
  Byte* data = nullptr;
  int first_block = 0;
};

struct TaskPlan {
  Transfer transfer;
  BlockBuffer<const std::byte> input;  // may be the memory of `output`
  BlockBuffer<std::byte> output;
  std::size_t block = 0;  // elements of a block of the buffers
  Part part;              // of the blocks that travel as one
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;               // an average divides by it
  bool empty_message = false;  // without data, one empty message travels
};

// What a rank does of one transfer of a collective over one channel. Progress thread only.
class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Prepares a run.
  virtual void start() = 0;
  // Does what is possible at once and never waits. True: something moved. Errors are already noted.
  virtual Result<bool> advance() = 0;
  virtual bool done() const = 0;
};
using Tasks = std::vector<std::unique_ptr<Task>>;

// "waiting for A, B and 3 more": what Traffic::describe() answers, item by item.
class WaitedFor {
 public:
  void add(const std::string& item) {
    if (++count_ <= kShown) text_ += (text_.empty() ? "waiting for " : ", ") + item;
  }
  // "": nothing.
  std::string text() const {
    return count_ > kShown ? text_ + " and " + std::to_string(count_ - kShown) + " more" : text_;
  }

 private:
  static constexpr int kShown = 6;
  std::string text_;
  int count_ = 0;
};

// All connections of a rank.
class Traffic {
 public:
  Traffic() = default;
  virtual ~Traffic() = default;
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  virtual Status listen() = 0;
  // Block p has this rank's handles for rank p.
  virtual std::vector<Bytes> handles() const = 0;
  // Block p of `handles` has rank p's handles for this rank.
  virtual Status connect(const std::vector<Bytes>& handles) = 0;
  // Tells of the buffers of all tasks. They are of one size in all ranks, and stay until close().
  virtual Status addBuffers(std::span<std::byte> send, std::span<std::byte> receive) = 0;
  virtual Status close() = 0;

  // Null: the transfer asks nothing of this rank. `waits`: a chunk may be written only after the task that
  // was made before for this channel has read it.
  virtual std::unique_ptr<Task> makeTask(const TaskPlan& plan, int channel, bool waits) = 0;
  // What must be called all the time.
  virtual Status progress() { return Status::success(); }
  // Adds the signals that are not what all tasks so far have made them, as offsets into the memory of
  // signals. What is found is expected from now on. Call it while no rank runs tasks.
  virtual void checkSignals(Wrong& /*wrong*/) {}
  // Says what the tasks wait for, e.g. "2 receives from rank 1". Call it only after listen().
  virtual std::string describe() const = 0;
};

// The table of a plugin that a run uses. Main thread.
class PluginTable {
 public:
  virtual ~PluginTable() = default;
  virtual const std::string& path() const = 0;
  virtual PluginApi& api() const = 0;
  // Calls init. Returns the number of devices.
  virtual Outcome<int> start(uint64_t comm_id) = 0;
  virtual std::unique_ptr<Traffic> makeTraffic(const RankContext& context, Activity& activity,
                                               const LinkPlan& plan, int ranks) = 0;
};

template <typename Api>
class LoadedTable : public PluginTable {
 public:
  explicit LoadedTable(Loaded<Api> loaded) : loaded_(std::move(loaded)) {}
  const std::string& path() const override { return loaded_.path; }
  Api& api() const override { return *loaded_.api; }

 private:
  const Loaded<Api> loaded_;
};

// The net table, whose traffic is messages (links.cc). Errors are those of loadPlugin().
Outcome<std::unique_ptr<PluginTable>> openNetTable(const PluginOptions& options);
// The RMA table, whose traffic is puts and gets (windows.cc).
Outcome<std::unique_ptr<PluginTable>> openRmaTable(const PluginOptions& options, Collective collective);
// The table that the collective needs.
inline Outcome<std::unique_ptr<PluginTable>> openTable(const PerfOptions& options) {
  return isOneSided(options.collective) ? openRmaTable(options.plugin, options.collective)
                                        : openNetTable(options.plugin);
}

}  // namespace railwise::cli
