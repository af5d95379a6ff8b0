// Exact counts of a context: of its living queues and of those that are destroyed (softdev.h).
#include "softdev/fabric/count_sums.h"
#include "softdev/queues/objects.h"
#include "softdev/verbs/completion_queue.h"

namespace railwise::softdev {
namespace {

// Moves counts from an object to those of the destroyed objects. Readers of all counts of a fabric hold its
// table lock, so they find each count once.
template <typename Move>
void moveCounts(const Context& context, Move&& move) {
  if (context.fabric->forgotten) return move();
  const SharedLockGuard guard(context.fabric->segment->tables, context.fabric->self);
  move();
}

}  // namespace

void retireCounters(Context& context, const Qp& qp) {
  const uint32_t port = qp.attr.port_num > 0 ? qp.attr.port_num - 1U : 0U;
  moveCounts(context, [&] {
    context.record->retired_work[port].add(qp.record->counters);
    qp.record->counters.clear();
  });
}

void retireCounters(Context& context, const Cq& cq) {
  moveCounts(context, [&] {
    PollCounters& retired = context.record->retired_polls;
    retired.polls.add(cq.record->counters.polls.value());
    retired.completions.add(cq.record->counters.completions.value());
    retired.empty_polls.fetch_add(cq.record->counters.empty_polls.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
    cq.record->counters.clear();
  });
}

void retireCounters(Context& context, const Srq& srq) {
  moveCounts(context, [&] {
    context.record->retired_work[0].receives.add(srq.record->receives.value());
    context.record->retired_work[0].receive_posts.add(srq.record->receive_posts.value());
    srq.record->receives = 0;
    srq.record->receive_posts = 0;
  });
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
