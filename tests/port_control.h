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
#include "tests/ok.h"

namespace railwise::test {

// `port`: "[HOST/]DEVICE[:PORT]". `change`: "down", "up", "gid=2=10.0.0.7", "event=sm_change", "fatal" ...
inline void changePort(const std::string& port, const std::string& change) {
  const auto fabric = softdev::joinFabric("test" + std::to_string(getpid()));
  ASSERT_OK(fabric);
  const auto ports = softdev::findPorts(**fabric, port);
  ASSERT_OK(ports);
  ASSERT_EQ(ports->size(), 1U);
  const auto changed = softdev::changePort(**fabric, (*ports)[0], change);
  EXPECT_OK(changed);
  softdev::detachFabric(*fabric);
}

// `text`: of a rule (docs/software-device.md).
inline void addFault(const std::string& text) {
  const auto fabric = softdev::joinFabric("test" + std::to_string(getpid()));
  ASSERT_OK(fabric);
  const auto rule = softdev::parseFaultRule(text);
  ASSERT_OK(rule);
  EXPECT_OK(softdev::addFault(**fabric, *rule)) << text;
  softdev::detachFabric(*fabric);
}

}  // namespace railwise::test
