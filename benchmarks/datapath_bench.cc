// One connection from this process to itself on the software device: CPU time per message (both ends and the
// device) and the work it makes. Run it on a quiet machine, with --benchmark_repetitions=11
// --benchmark_report_aggregates_only=true.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "net/net.h"
#include "softdev/softdev.h"

namespace railwise::net {
namespace {

class Loop {
 public:
  Loop() : buffer_(16 << 20) {
    setenv("RAILWISE_DEVICE", ("software:fabric=bench" + std::to_string(getpid())).c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    net_ = *Net::acquire();
    context_ = std::make_unique<Context>(*net_, -1);
    const Device& device = net_->devices()[0];
    char handle[kHandleBytes];
    Listener* listener = *context_->listen(device, handle);
    while (send_ == nullptr || receive_ == nullptr) {
      if (send_ == nullptr) send_ = *context_->connect(device, handle, -1);
      if (receive_ == nullptr) receive_ = *Context::accept(*listener);
    }
    memory_ = *send_->memory().acquire(address(0), buffer_.size(), MemoryKind::kHost);
  }
  ~Loop() {
    send_->memory().release(memory_);
    context_.reset();
    Net::release();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // `window` groups of `group` messages in flight, all completed.
  bool round(int window, int group, size_t bytes) {
    receives_.clear();
    sends_.clear();
    const std::vector<ReceiveBuffer> buffers(static_cast<size_t>(group),
                                             {address(8 << 20), bytes, 0, memory_});
    Request* request = nullptr;
    for (int i = 0; i < window; ++i) {
      if (!receive_->irecv(buffers, &request).ok()) return false;
      receives_.push_back(request);
    }
    for (int i = 0; i < window * group; ++i) {
      if (!send_->isend(address(0), bytes, 0, memory_, &request).ok() || request == nullptr) return false;
      sends_.push_back(request);
    }
    return finishAll(sends_) && finishAll(receives_);
  }

  softdev::Counters counters() const { return softdev::counters(net_->devices()[0].hca->context()); }

 private:
  uint64_t address(size_t offset) const { return reinterpret_cast<uint64_t>(buffer_.data()) + offset; }
  static bool finishAll(const std::vector<Request*>& requests) {
    for (Request* request : requests) {
      for (bool done = false; !done;) {
        const Result<bool> tested = request->connection->test(*request, nullptr);
        if (!tested.ok()) return false;
        done = *tested;
      }
    }
    return true;
  }

  std::vector<char> buffer_;
  Net* net_ = nullptr;
  std::unique_ptr<Context> context_;
  SendConnection* send_ = nullptr;
  ReceiveConnection* receive_ = nullptr;
  MemoryHandle* memory_ = nullptr;
  std::vector<Request*> receives_, sends_;
};

void messages(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const auto group = static_cast<int>(state.range(1));
  constexpr int kWindow = 8;
  Loop loop;
  const softdev::Counters before = loop.counters();
  for (auto _ : state) {
    if (!loop.round(kWindow, group, bytes)) {
      state.SkipWithError("a transfer failed");
      break;
    }
  }
  const softdev::Counters after = loop.counters();
  const auto count = static_cast<double>(state.iterations()) * kWindow * group;
  const auto perMessage = [&](uint64_t from, uint64_t to) { return static_cast<double>(to - from) / count; };
  state.SetItemsProcessed(static_cast<int64_t>(count));
  state.SetBytesProcessed(static_cast<int64_t>(count) * static_cast<int64_t>(bytes));
  state.counters["posts"] = perMessage(before.post_send_calls, after.post_send_calls);
  state.counters["sends"] =
      perMessage(before.writes + before.writes_with_imm, after.writes + after.writes_with_imm);
  state.counters["receives"] = perMessage(before.receives, after.receives);
  state.counters["completions"] = perMessage(before.completions, after.completions);
  state.counters["polls"] = perMessage(before.poll_calls, after.poll_calls);
}
BENCHMARK(messages)->ArgNames({"bytes", "group"})->ArgsProduct({{8, 4096, 65536, 1 << 20}, {1, 8}});

}  // namespace
}  // namespace railwise::net
