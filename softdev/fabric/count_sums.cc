#include "softdev/fabric/count_sums.h"

namespace railwise::softdev {
namespace {

constexpr Counter WorkCounters::*kWork[] = {
    &WorkCounters::posts,         &WorkCounters::writes,       &WorkCounters::writes_with_imm,
    &WorkCounters::reads,         &WorkCounters::sends,        &WorkCounters::atomics,
    &WorkCounters::more_sges,     &WorkCounters::inlined,      &WorkCounters::signalled,
    &WorkCounters::bytes,         &WorkCounters::system_calls, &WorkCounters::receives,
    &WorkCounters::receive_posts,
};

}  // namespace

void addTo(Counters& sum, const WorkCounters& c) {
  sum.post_send_calls += c.posts.value();
  sum.writes += c.writes.value();
  sum.writes_with_imm += c.writes_with_imm.value();
  sum.reads += c.reads.value();
  sum.sends += c.sends.value();
  sum.atomics += c.atomics.value();
  sum.send_sges += c.writes.value() + c.writes_with_imm.value() + c.reads.value() + c.sends.value() +
                   c.atomics.value() + c.more_sges.value();
  sum.inline_sends += c.inlined.value();
  sum.signalled_sends += c.signalled.value();
  sum.bytes += c.bytes.value();
  sum.system_calls += c.system_calls.value();
  sum.receives += c.receives.value();
  sum.post_recv_calls += c.receive_posts.value();
}

void addTo(Counters& sum, const PollCounters& c) {
  const uint64_t empty = c.empty_polls.load(std::memory_order_relaxed);
  sum.empty_polls += empty;
  sum.poll_calls += c.polls.value() + empty;
  sum.completions += c.completions.value();
}

void addTo(Counters& sum, const SrqRecord& srq) {
  sum.receives += srq.receives.value();
  sum.post_recv_calls += srq.receive_posts.value();
}

void WorkCounters::clear() {
  for (const auto field : kWork) this->*field = 0;
}

void WorkCounters::add(const WorkCounters& other) {
  for (const auto field : kWork) (this->*field).add((other.*field).value());
}

void PollCounters::clear() {
  polls = 0;
  completions = 0;
  empty_polls.store(0, std::memory_order_relaxed);
}

}  // namespace railwise::softdev
