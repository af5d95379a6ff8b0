#include "softdev/fault_helpers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <utility>

#include "softdev/config/fault_names.h"
#include "tests/wait.h"

namespace railwise::softdev::test {

uint32_t addRule(ibv_context* context, const std::string& text) {
  const auto rule = parseFaultRule(text);
  if (!rule.ok()) {
    ADD_FAILURE() << rule.error();
    return 0;
  }
  Result<uint32_t> id = addFault(fabricOf(context), *rule);
  return id.ok() ? *id : 0;
}

std::vector<std::string> logLines(ibv_context* context) {
  std::vector<std::string> lines;
  for (const FaultLogEntry& entry : readFaultLog(fabricOf(context))) {
    const char* operation = entry.operation != 0 ? nameOfFault(faultOperations(), entry.operation)
                                                 : verbName(static_cast<Verb>(entry.verb));
    lines.push_back(std::to_string(entry.rule) + " " + entry.device + ":" + std::to_string(entry.port) +
                    " qp " + std::to_string(qpIndexOf(entry.qp)) + " wr " + std::to_string(entry.wr_id) +
                    " " + operation + " " + entry.action);
  }
  return lines;
}

std::string nextEvent(ibv_context* context) {
  pollfd poller{context->async_fd, POLLIN, 0};
  ibv_async_event event{};
  if (poll(&poller, 1, 0) != 1 || getAsyncEvent(context, &event) != 0) return "";
  ackAsyncEvent(&event);
  return eventTypeStr(event.event_type);
}

HeldUp::HeldUp(ibv_context* context, std::function<void()> call) {
  signal(SIGUSR1, [](int) {});
  thread_ = std::thread([this, call = std::move(call)] {
    call();
    done_ = true;
  });
  railwise::test::waitUntil([&] { return !readFaultLog(fabricOf(context)).empty(); });
}

HeldUp::~HeldUp() {
  for (railwise::test::Patience patience; !done_; patience.again()) {
    pthread_kill(thread_.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  thread_.join();
}

}  // namespace railwise::softdev::test
