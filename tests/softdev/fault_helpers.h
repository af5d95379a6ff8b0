// Rules and their log, for tests of the fault injector.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "softdev/endpoint.h"
#include "softdev/faults/faults.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev::test {

inline Fabric& fabricOf(ibv_context* context) { return *as<Context>(context).fabric; }

// Index of the record of its first port.
inline uint32_t portOf(ibv_context* context) { return as<Context>(context).record->ports[0]; }

// Another device of the configuration, closed at the end.
class OpenSecond {
 public:
  explicit OpenSecond(const std::string& name) : context_(openNamed(name)) {}
  ~OpenSecond() { closeDevice(context_); }
  OpenSecond(const OpenSecond&) = delete;
  OpenSecond& operator=(const OpenSecond&) = delete;
  operator ibv_context*() const { return context_; }  // NOLINT: stands for the context

 private:
  ibv_context* context_;
};

// The rule's id; 0, and a failed test, when its text is wrong.
uint32_t addRule(ibv_context* context, const std::string& text);

// The log, as "RULE HOST/DEVICE:PORT QP WR_ID OPERATION ACTION", without what differs between two runs.
std::vector<std::string> logLines(ibv_context* context);

// "event" of the context, as eventTypeStr has it; "" when none waits.
std::string nextEvent(ibv_context* context);

// A thread that makes a call which a rule holds up, for a minute: it does from when this is made until it is
// destroyed, when a signal ends the delay. Nothing may be in the log before.
class HeldUp {
 public:
  HeldUp(ibv_context* context, std::function<void()> call);
  ~HeldUp();
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace railwise::softdev::test
