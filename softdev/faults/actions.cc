#include "softdev/faults/actions.h"

#include <signal.h>
#include <unistd.h>

#include <ctime>

#include "base/clock.h"
#include "softdev/fabric/events.h"
#include "softdev/faults/port_control.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

// Sends SIGKILL and waits until the process is gone, so that all that follows meets a dead process, every
// time. Does nothing if there is no such process (any more): token 0 has no slot.
void killProcess(const Fabric& fabric, uint32_t token) {
  const uint32_t slot = slotOf(token);
  if (slot >= kMaxProcesses) return;
  const auto pid = static_cast<pid_t>(fabric.segment->processes[slot].pid.load(std::memory_order_acquire));
  if (pid <= 0 || !tokenAlive(fabric.self, token)) return;
  (void)kill(pid, SIGKILL);
  const Deadline deadline = Deadline::after(std::chrono::seconds(2));
  while (tokenAlive(fabric.self, token) && !deadline.passed()) {
    constexpr timespec kPause{0, 100'000};
    nanosleep(&kPause, nullptr);
  }
}

void raiseChosenEvent(const Target& at, ibv_event_type type) {
  uint32_t element = 0;
  switch (eventOf(type)) {
    case EventOf::kPort:
      if (at.port != kMaxPorts) raisePortEvent(at.fabric, at.port, type);
      return;
    case EventOf::kQp:
      if (at.qp != nullptr) raiseQpEvent(at.fabric, *at.qp, type);
      return;
    case EventOf::kCq:
      if (at.qp != nullptr) element = at.qp->send_cq;
      break;
    case EventOf::kSrq:
      if (at.qp != nullptr) element = at.qp->srq;
      break;
    case EventOf::kDevice:
      if (at.context != 0) raiseEvent(at.fabric, at.context, type, 0);
      return;
  }
  if (element != 0) raiseEvent(at.fabric, at.context, type, element);
}

}  // namespace

void describePlace(const Segment& segment, const QpRecord& qp, FaultSite* site) {
  const PortRecord& port = segment.ports[qp.port];
  const uint32_t owner = qp.owner.load(std::memory_order_acquire);
  site->host = port.host;
  site->device = port.device;
  site->port = port.number;
  site->qp = qp.qp_num.load(std::memory_order_relaxed);
  if (owner != 0) site->process = segment.processes[slotOf(owner)].pid.load(std::memory_order_acquire);
}

void failQp(Fabric& fabric, QpRecord& qp, uint32_t number) {
  ResponderGuard guard(fabric, qp);
  if (qp.qp_num.load(std::memory_order_relaxed) != number) return;
  const uint32_t state = qp.state.load(std::memory_order_relaxed);
  if (state == IBV_QPS_ERR || state == IBV_QPS_RESET) return;
  enterError(fabric, qp);
  raiseQpEvent(fabric, qp, IBV_EVENT_QP_FATAL);  // before the QP can be destroyed, which drops its events
}

bool act(const Target& at, const FaultRule& rule) {
  const Segment& segment = *at.fabric.segment;
  switch (rule.action) {
    case FaultAction::kEvent:
      raiseChosenEvent(at, static_cast<ibv_event_type>(rule.code));
      return true;
    case FaultAction::kPortDown:
    case FaultAction::kPortUp:
      if (at.port != kMaxPorts) setPortState(at.fabric, at.port, rule.action == FaultAction::kPortUp);
      return true;
    case FaultAction::kGid:
      if (at.port != kMaxPorts) setPortGid(at.fabric, at.port, rule.gid_index, rule.gid, rule.gid_type);
      return true;
    case FaultAction::kSpeed:
      if (at.port != kMaxPorts) setPortSpeed(at.fabric, at.port, rule.code);
      return true;
    case FaultAction::kDeviceFatal:
      if (at.port != kMaxPorts)
        failDevice(at.fabric, segment.ports[at.port].host, segment.ports[at.port].device);
      return true;
    case FaultAction::kKillSelf:
      // Kills the owner of the queue pair, because the sender's process evaluates the rules of a receiver.
      if (at.qp == nullptr) (void)kill(getpid(), SIGKILL);
      if (at.qp != nullptr) killProcess(at.fabric, at.qp->owner.load(std::memory_order_acquire));
      return true;
    case FaultAction::kKillPeer:
      if (at.peer != nullptr) killProcess(at.fabric, at.peer->owner.load(std::memory_order_acquire));
      return true;
    default:
      return false;
  }
}

}  // namespace railwise::softdev
