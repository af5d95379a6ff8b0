// On real devices, after each test of the suite: what does the kernel still hold for this process?
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/kernel_objects.h"

namespace railwise::test {

// What is wrong with what the plugin holds while it is at rest: no connection, no registration. Empty when
// nothing is. `shared`: versions 6 to 10, whose context, with a context and a protection domain of each
// device and the pieces of its window arena, lives as long as the process; later versions hold nothing after
// finalize. `devices`: how many devices, fused ones too, may have an arena.
std::string leftBehind(const std::vector<KernelObject>& objects, bool shared, std::size_t devices);

// Fails a test that leaves anything else behind. Says so once: what has leaked is no fault of the next test.
class KernelLeaks : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& test) override;

 private:
  std::string known_;
};

}  // namespace railwise::test
