#include "softdev/fault_helpers.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "softdev/fault_names.h"

namespace railwise::softdev::test {

uint32_t addRule(ibv_context* context, const std::string& text) {
  FaultRule rule;
  std::string error;
  if (!parseFaultRule(text, &rule, &error)) {
    ADD_FAILURE() << error;
    return 0;
  }
  Result<uint32_t> id = addFault(fabricOf(context), rule);
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

}  // namespace railwise::softdev::test
