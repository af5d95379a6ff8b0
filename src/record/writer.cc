#include "record/writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "record/file.h"
#include "record/process_record.h"

namespace railwise::record {
namespace {

std::mutex g_mutex;  // guards start and stop
std::atomic<Record*> g_record = nullptr;
// Pages name the record that they belong to, so records stay as objects after stop(), but without their
// memory.
std::vector<std::unique_ptr<Record>>& g_ended = *new std::vector<std::unique_ptr<Record>>;

// The process exits without stop(). Its threads may still write to the record, so only the name goes.
void removeAtExit() {
  if (Record* const its = currentRecord(); its != nullptr && !its->hasFailures())
    (void)unlink(its->path().c_str());
}

}  // namespace

Record* currentRecord() {
  Record* const found = g_record.load(std::memory_order_acquire);
  return found != nullptr && found->ours() ? found : nullptr;
}

void setText(char* field, std::size_t bytes, std::string_view text) {
  constexpr std::string_view kCut = "...";
  std::size_t length = std::min(text.size(), bytes - 1);
  // A sentence that is too long ends behind a word.
  const std::size_t space = text.rfind(' ', bytes - 1 - std::min(bytes - 1, kCut.size()));
  const bool cut = length < text.size() && space != std::string_view::npos;
  if (cut) length = space;
  std::memcpy(field, text.data(), length);
  if (cut) length += kCut.copy(field + length, kCut.size());
  std::memset(field + length, 0, bytes - length);
}

void start(const WriterSettings& settings) {
  const std::lock_guard lock(g_mutex);
  if (currentRecord() != nullptr) return;
  removeStaleRecords(settings.folder, geteuid(), settings.keep);
  std::string problem;
  std::unique_ptr<Record> made = Record::make(settings, problem);
  if (made == nullptr) {
    RAILWISE_INFO(log::kInit | log::kNet,
                  "no record of this process in %s, so railwise top, stuck and metrics do not show it: %s "
                  "(RAILWISE_METRICS_DIR)",
                  settings.folder.c_str(), problem.c_str());
    return;
  }
  g_ended.reserve(g_ended.size() + 1);  // stop() must not need memory
  g_record.store(made.release(), std::memory_order_release);
  // API versions 6 to 10 have no finalize, and programs exit without it.
  static const int at_exit = std::atexit(removeAtExit);
  (void)at_exit;
  noteEvent(EventKind::kProcessStarted, settings.plugin);
}

void stop() {
  const std::lock_guard lock(g_mutex);
  Record* const ending = currentRecord();
  if (ending == nullptr) return;
  noteEvent(EventKind::kProcessEnded, "");
  ending->header().ended_ns = nowNs();
  g_record.store(nullptr, std::memory_order_release);
  ending->finish(ending->hasFailures());
  g_ended.emplace_back(ending);
}

void beat() {
  if (Record* const its = currentRecord(); its != nullptr)
    std::atomic_ref(its->header().alive_ns).store(nowNs(), std::memory_order_relaxed);
}

std::string recordPath() {
  Record* const its = currentRecord();
  return its != nullptr ? its->path() : "";
}

// ---- rails

uint16_t addRail(const RailDescription& rail) {
  Record* const its = currentRecord();
  return its != nullptr ? its->addRail(rail) : kNoRail;
}

uint16_t railOf(std::string_view device, int port) {
  Record* const its = currentRecord();
  if (its == nullptr) return kNoRail;
  const std::lock_guard lock(its->railsMutex());
  return its->find(device, port);
}

namespace {

// Changes a rail under the lock of the rails.
template <typename Change>
void changeRail(uint16_t index, Change change) {
  Record* const its = currentRecord();
  if (its == nullptr || index >= kMostRails) return;
  const std::lock_guard lock(its->railsMutex());
  RailRecord& rail = its->rail(index);
  increase(rail.sequence);
  change(rail);
  increase(rail.sequence);
}

}  // namespace

void setRailState(uint16_t index, RailState state) {
  changeRail(index, [&](RailRecord& rail) {
    if (rail.state == state) return;
    rail.state = state;
    ++rail.state_changes;
    rail.state_since_ns = nowNs();
  });
}

void setClaimedSpeed(uint16_t index, uint32_t mbps) {
  changeRail(index, [&](RailRecord& rail) { rail.claimed_mbps = mbps; });
}

void setNetworkRail(uint16_t index, int number) {
  changeRail(index, [&](RailRecord& rail) { rail.rail = number; });
}

void countError(uint16_t index, ErrorKind kind) {
  changeRail(index, [&](RailRecord& rail) { ++rail.counters.errors[static_cast<int>(kind)]; });
}

void countFailover(uint16_t index) {
  changeRail(index, [](RailRecord& rail) { ++rail.counters.failovers; });
}

void countReturn(uint16_t index) {
  changeRail(index, [](RailRecord& rail) { ++rail.counters.returns; });
}

void countDeviceLife(std::string_view device) {
  Record* const its = currentRecord();
  if (its == nullptr) return;
  const std::lock_guard lock(its->railsMutex());
  for (uint16_t i = 0; i < its->rails(); ++i) {
    RailRecord& rail = its->rail(i);
    if (device.substr(0, sizeof rail.device - 1) != rail.device) continue;
    increase(rail.sequence);
    ++rail.counters.device_lives;
    increase(rail.sequence);
  }
}

void noteEvent(EventKind kind, std::string_view text, const EventDetails& details) {
  if (Record* const its = currentRecord(); its != nullptr) its->note(kind, text, details);
}

}  // namespace railwise::record
