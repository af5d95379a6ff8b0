#include "perf/collective/task.h"

#include <algorithm>
#include <cstring>

namespace railwise::cli {
namespace {

class CopyTask final : public Task {
 public:
  CopyTask(const std::byte* from, std::byte* to, std::size_t bytes) : from_(from), to_(to), bytes_(bytes) {}
  void start() override { done_ = false; }
  Result<bool> advance() override {
    if (bytes_ > 0 && from_ != to_) std::memcpy(to_, from_, bytes_);
    done_ = true;
    return true;
  }
  bool done() const override { return done_; }

 private:
  const std::byte* from_;
  std::byte* to_;
  std::size_t bytes_;
  bool done_ = false;
};

class ExchangeTask final : public Task {
 public:
  ExchangeTask(const ExchangePlan& plan, SendLink& to, RecvLink& from) : plan_(plan), to_(to), from_(from) {
    const std::size_t full = (plan.bytes + to.slotBytes() - 1) / to.slotBytes();
    messages_ = full == 0 && plan.empty_message ? 1 : full;
  }

  void start() override {
    staged_ = received_ = 0;
    from_.expect(messages_);
  }

  Result<bool> advance() override {
    bool moved = false;
    while (staged_ < messages_ && to_.slotFree()) {
      const std::size_t bytes = bytesOf(staged_);
      if (bytes > 0) std::memcpy(to_.nextSlot(), plan_.send + offsetOf(staged_), bytes);
      to_.stage(bytes);
      ++staged_;
      moved = true;
    }
    while (received_ < messages_ && from_.arrived() && (!plan_.in_place || received_ < staged_)) {
      const std::size_t bytes = bytesOf(received_);
      if (from_.message().size() != bytes) return from_.wrongSize(bytes);
      if (bytes > 0) std::memcpy(plan_.receive + offsetOf(received_), from_.message().data(), bytes);
      from_.consume();
      ++received_;
      moved = true;
    }
    auto sent = to_.poll();
    if (!sent.ok()) return sent;
    auto got = from_.poll();
    if (!got.ok()) return got;
    return moved || *sent || *got;
  }

  bool done() const override { return received_ == messages_ && staged_ == messages_ && to_.idle(); }

 private:
  std::size_t offsetOf(std::size_t message) const { return message * to_.slotBytes(); }
  std::size_t bytesOf(std::size_t message) const {
    return std::min(to_.slotBytes(), plan_.bytes - offsetOf(message));
  }

  const ExchangePlan plan_;
  SendLink& to_;
  RecvLink& from_;
  std::size_t messages_ = 0;
  std::size_t staged_ = 0;
  std::size_t received_ = 0;
};

}  // namespace

std::vector<Part> splitParts(std::size_t count, int parts, std::size_t granule) {
  std::vector<Part> result(static_cast<std::size_t>(parts));
  const auto n = static_cast<std::size_t>(parts);
  std::size_t share = (count + n - 1) / n;
  share = (share + granule - 1) / granule * granule;
  std::size_t first = 0;
  for (Part& part : result) {
    part = {first, std::min(share, count - first)};
    first += part.count;
  }
  return result;
}

std::unique_ptr<Task> makeExchange(const ExchangePlan& plan, SendLink& to, RecvLink& from) {
  return std::make_unique<ExchangeTask>(plan, to, from);
}

std::unique_ptr<Task> makeCopy(const std::byte* from, std::byte* to, std::size_t bytes) {
  return std::make_unique<CopyTask>(from, to, bytes);
}

Status runTasks(const std::vector<std::unique_ptr<Task>>& tasks, std::size_t window, Activity& activity,
                IdleWait& wait) {
  for (const auto& task : tasks) task->start();
  std::size_t first = 0;
  while (true) {
    while (first < tasks.size() && tasks[first]->done()) ++first;
    if (first == tasks.size()) return Status::success();
    bool moved = false;
    const std::size_t end = std::min(tasks.size(), first + window);
    for (std::size_t i = first; i < end; ++i) {
      if (tasks[i]->done()) continue;
      auto advanced = tasks[i]->advance();
      if (!advanced.ok()) return advanced.status();
      moved = moved || *advanced;
    }
    if (moved) {
      wait.moved();
      activity.tick();
    } else {
      wait.idle();
    }
  }
}

}  // namespace railwise::cli
