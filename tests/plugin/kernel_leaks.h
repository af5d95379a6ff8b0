// On real devices, after each test of the suite: what does the kernel still hold for this process?
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernel_objects.h"

namespace railwise::test {

// What is wrong with what the plugin holds while it is at rest: no connection, no registration. "" when
// nothing is.
//
// `shared`: versions 6 to 10 share a context that lives as long as the process: one verbs context and one
// protection domain of each device, and the pieces of window arenas, of which each of `devices` (fused ones
// too) may have one. Later versions hold nothing after finalize. librdmacm, once it is loaded, keeps a verbs
// context of its own of each device that it has met until the process ends.
std::string leftBehind(const std::vector<KernelObject>& objects, bool shared, std::size_t devices);

// Fails a test that leaves anything else behind. Says so once: what has leaked is no fault of the next test.
class KernelLeaks : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& test) override;

 private:
  std::string known_;
};

}  // namespace railwise::test
