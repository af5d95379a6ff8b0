// What `railwise device port` and `railwise device fault add` do, for tests: a port of this process's fabric
// goes down, comes up, or gets another address while it is in use; a fault strikes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "softdev/config/fault_rule.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"
#include "softdev/faults/faults.h"

namespace railwise::test {

// `port`: "[HOST/]DEVICE[:PORT]". `change`: "down", "up", "gid=2=10.0.0.7", "event=sm_change", "fatal" ...
inline void changePort(const std::string& port, const std::string& change) {
  const auto fabric = softdev::joinFabric("test" + std::to_string(getpid()));
  ASSERT_TRUE(fabric.ok());
  std::string error;
  const auto ports = softdev::findPorts(**fabric, port, &error);
  ASSERT_EQ(ports.size(), 1U) << error;
  EXPECT_TRUE(softdev::changePort(**fabric, ports[0], change, &error)) << error;
  softdev::detachFabric(*fabric);
}

// `text`: of a rule (docs/software-device.md).
inline void addFault(const std::string& text) {
  const auto fabric = softdev::joinFabric("test" + std::to_string(getpid()));
  ASSERT_TRUE(fabric.ok());
  softdev::FaultRule rule{};
  std::string error;
  ASSERT_TRUE(softdev::parseFaultRule(text, &rule, &error)) << error;
  EXPECT_TRUE(softdev::addFault(**fabric, rule).ok()) << text;
  softdev::detachFabric(*fabric);
}

}  // namespace railwise::test
