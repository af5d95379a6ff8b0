// What ranks say to each other in one-sided communication. Reports and marks in any order, beside a plain
// list of what has come: each signal is applied once, in the order of the numbers, only when its report and
// all marks that it waits for have come in this epoch, and as soon as they have. Region frames: what a put
// may reach is inside what the latest frame of this epoch says.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "net/rma/signal_order.h"
#include "net/rma/stream.h"
#include "net/rma/window.h"

namespace {

using namespace railwise::net;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Bytes {
  const uint8_t* at;
  const uint8_t* end;
  template <typename T>
  T take() {
    T value = {};
    const auto there = std::min(sizeof value, static_cast<size_t>(end - at));
    std::memcpy(&value, at, there);
    at += there;
    return value;
  }
  bool over() const { return at == end; }
};

// What has come of a signal in this epoch.
struct Come {
  std::optional<Report> report;
  uint32_t over = 0;  // the queue pair of the report
  uint32_t marks = 0;
};

class Orders {
 public:
  // False: the target trusts the writer no more.
  bool step(Bytes& bytes) {
    const auto what = bytes.take<uint8_t>();
    if (what % 16 == 0) {
      order_.forget();
      come_.clear();
      require(order_.latest() == order_.applied());
      return true;
    }
    Report report = {};
    report.kind = what % 4 == 1 ? Report::Kind::kMark : Report::Kind::kSignal;
    // Mostly one of the next few: random numbers are all wrong.
    report.number = what % 16 == 15 ? bytes.take<uint64_t>() : order_.applied() + bytes.take<uint8_t>() % 8;
    report.owed = what % 3 == 0 ? 0 : bytes.take<uint32_t>() & (what % 3 == 1 ? 7U : UINT32_MAX);
    report.value = ++values_;
    return take(report, bytes.take<uint8_t>() % kMaxQueuePairs);
  }

 private:
  bool take(const Report& report, uint32_t queue_pair) {
    if (order_.takeNext(report)) {
      require(report.kind == Report::Kind::kSignal && report.owed == 0 && come_.empty());
      require(order_.applied() == ++applied_ && report.number == applied_);
      return true;
    }
    const std::string problem = order_.take(report, queue_pair);
    const bool near = report.number > applied_ && report.number - applied_ <= kOpenSignals;
    if (!near) {
      require(!problem.empty());
      return false;
    }
    Come& come = come_[report.number];
    const bool mark = report.kind == Report::Kind::kMark;
    const bool again = mark ? (come.marks >> queue_pair & 1) != 0 : come.report.has_value();
    require(again == !problem.empty());
    if (again) return false;
    if (mark) {
      come.marks |= uint32_t{1} << queue_pair;
    } else {
      come.report = report;
      come.over = queue_pair;
    }
    apply();
    return true;
  }
  bool isNext() const {
    const auto next = come_.find(applied_ + 1);
    return next != come_.end() && next->second.report &&
           (next->second.report->owed & ~next->second.marks) == 0;
  }
  void apply() {
    const auto one = [&](const Report& report, uint8_t home, uint32_t brought) {
      require(isNext());
      const Come& come = come_[++applied_];
      require(std::memcmp(&report, &*come.report, sizeof report) == 0);
      require(home == come.over && brought == (report.owed | uint32_t{1} << home));
      come_.erase(applied_);
      return true;
    };
    while (order_.applyNext(one)) {
    }
    require(!isNext() && order_.applied() == applied_);
    require(order_.latest() == (come_.empty() ? applied_ : come_.rbegin()->first));
  }

  SignalOrder order_;
  uint64_t applied_ = 0;
  uint64_t values_ = 0;
  std::map<uint64_t, Come> come_;
};

class Windows {
 public:
  void step(Bytes& bytes) {
    const auto what = bytes.take<uint8_t>();
    if (what % 2 == 0) {
      auto frame = bytes.take<RegionFrame>();
      frame.window %= kMost;  // PutWriter::onFrame() refuses what is beyond kMostWindows
      frame.epoch %= 4;
      regions_.take(frame);
      latest_[frame.window] = frame;
      return;
    }
    const uint32_t window = bytes.take<uint8_t>() % (kMost + 1);
    const uint32_t epoch = bytes.take<uint8_t>() % 4;
    const auto offset = bytes.take<uint64_t>() >> bytes.take<uint8_t>() % 64;
    const auto count = bytes.take<uint64_t>() >> bytes.take<uint8_t>() % 64;
    const Region* const reached = regions_.reach(window, epoch, offset, count);
    const auto said = latest_.find(window);
    require((regions_.find(window) != nullptr) == (said != latest_.end()));
    if (reached == nullptr || said == latest_.end()) {
      // Epoch 0 is none; a part of no bytes reaches nothing that a put needs.
      require(reached == nullptr || (epoch == 0 && offset + count == 0));
      return;
    }
    const RegionFrame& frame = said->second;
    require(frame.epoch == epoch && reached->address == frame.address && reached->gone == (frame.bytes == 0));
    require(offset <= frame.bytes && count <= frame.bytes - offset);
  }

 private:
  static constexpr uint32_t kMost = 64;
  Regions regions_;
  std::map<uint32_t, RegionFrame> latest_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes = {data, data + size};
  for (Orders orders; !bytes.over() && orders.step(bytes);) {
  }
  bytes = {data, data + size};
  for (Windows windows; !bytes.over();) windows.step(bytes);
  return 0;
}
