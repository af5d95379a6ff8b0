// Exact counts of a context, its living queues and those that are gone (softdev.h).
#include "softdev/completion_queue.h"
#include "softdev/count_sums.h"
#include "softdev/objects.h"

namespace railwise::softdev {
namespace {

constexpr Counter WorkCounters::*kWork[] = {
    &WorkCounters::posts,         &WorkCounters::writes,       &WorkCounters::writes_with_imm,
    &WorkCounters::reads,         &WorkCounters::sends,        &WorkCounters::atomics,
    &WorkCounters::sges,          &WorkCounters::inlined,      &WorkCounters::signalled,
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
  sum.send_sges += c.sges.value();
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

void retireCounters(Context& context, const Qp& qp) {
  const uint32_t port = qp.attr.port_num > 0 ? qp.attr.port_num - 1U : 0U;
  context.record->retired_work[port].add(qp.record->counters);
}

void retireCounters(Context& context, const Cq& cq) {
  PollCounters& retired = context.record->retired_polls;
  retired.polls.add(cq.record->counters.polls.value());
  retired.completions.add(cq.record->counters.completions.value());
  retired.empty_polls.fetch_add(cq.record->counters.empty_polls.load(std::memory_order_relaxed),
                                std::memory_order_relaxed);
}

void retireCounters(Context& context, const Srq& srq) {
  context.record->retired_work[0].receives.add(srq.record->receives.value());
  context.record->retired_work[0].receive_posts.add(srq.record->receive_posts.value());
}

Counters qpCounters(const ibv_qp* qp) {
  Counters sum;
  addTo(sum, as<Qp>(const_cast<ibv_qp*>(qp)).record->counters);
  return sum;
}

Counters counters(const ibv_context* base) {
  const Context& context = as<Context>(const_cast<ibv_context*>(base));
  std::lock_guard lock(context.objects);
  Counters sum;
  for (const WorkCounters& retired : context.record->retired_work) addTo(sum, retired);
  addTo(sum, context.record->retired_polls);
  for (const Qp* qp : context.qps) addTo(sum, qp->record->counters);
  for (const Cq* cq : context.cqs) addTo(sum, cq->record->counters);
  for (const Srq* srq : context.srqs) addTo(sum, *srq->record);
  return sum;
}

}  // namespace railwise::softdev
