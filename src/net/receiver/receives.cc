#include "net/receiver/receives.h"

#include <algorithm>

#include "net/profiler.h"

namespace railwise::net {

const Receive* Receives::latestAt(uint64_t address, uint64_t next) const {
  for (uint64_t back = 1; back <= kSlots && back < next; ++back) {
    const Receive& receive = of(next - back);
    const auto end = receive.addresses.begin() + receive.count;
    if (receive.complete() && std::find(receive.addresses.begin(), end, address) != end) return &receive;
  }
  return nullptr;
}

UnderWay Receives::underWay(uint64_t arrived, uint64_t next) const {
  for (uint64_t number = arrived + 1; number < next; ++number) {
    const Receive& receive = of(number);
    if (receive.number == number && !receive.complete()) return {number, receive.allRoom()};
  }
  return {};
}

uint64_t Receives::largestUnderWay() const {
  uint64_t largest = 0;
  for (const Receive& receive : slots_) {
    if (receive.isOpen()) largest = std::max(largest, receive.allRoom());
  }
  return largest;
}

bool Receives::isOpen() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Receive& receive) { return receive.isOpen(); });
}

void Receives::forgetSegments() {
  for (Receive& receive : slots_) receive.forgetSegments();
}

Words Receives::words(uint64_t arrived, uint64_t next) const {
  Words words = {.count = 2, .word = {arrived, 0}};
  for (uint64_t number = arrived + 1; number < next; ++number) {
    if (of(number).complete()) words.word[1] |= uint64_t{1} << (number - arrived - 1);
  }
  return words;
}

namespace {

profiler::Event eventOf(const Receive& receive, int device, std::size_t bytes) {
  profiler::Event event = {};
  event.kind = RAILWISE_PROFILER_RECEIVE;
  event.device = device;
  event.rail = -1;
  event.message = receive.number;
  event.bytes = bytes;
  return event;
}

}  // namespace

void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers, int device, const ibv_qp* qp) {
  receive.profiled = true;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    profiler::Event event = eventOf(receive, device, buffers[i].bytes);
    event.qp_number = qp != nullptr ? qp->qp_num : 0;
    event.tag = buffers[i].tag;
    receive.events[i] = profiler::start(buffers[i].profiler, event);
  }
}

void stopEvents(const Receive& receive, int device) {
  for (std::size_t i = 0; i < receive.count; ++i)
    profiler::stop(receive.events[i], eventOf(receive, device, receive.size(i)));
}

}  // namespace railwise::net
