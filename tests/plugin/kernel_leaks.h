// On real devices, after each test of the suite: what does the kernel still hold for this process?
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernel_objects.h"

namespace railwise::test {

// What the plugin may hold while it is at rest: no connection, no registration. Later versions than 10:
// nothing, after finalize. Versions 6 to 10 share a context that lives as long as the process: of each device
// one verbs context, one protection domain and the pieces of window arenas; and attempts to connect that
// nobody has ended, each with its queue pairs, completion queues and communication identifiers, until a
// minute after their time. Besides, librdmacm keeps a verbs context of its own of each device that it has
// met, until the process ends.
struct AtRest {
  bool shared = false;      // versions 6 to 10
  std::size_t devices = 0;  // of the plugin, fused ones too: each may have an arena
  std::size_t fewest_queue_pairs = 0, most_queue_pairs = 0;  // of attempts that were left alone
};

// "" when the objects are those; else what there is, with the names of the devices.
std::string leftBehind(const std::vector<KernelObject>& objects, const AtRest& rest);

// Fails a test that leaves anything else behind. Says so once: what has leaked is no fault of the next test.
class KernelLeaks : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& test) override;

 private:
  std::string known_;
};

}  // namespace railwise::test
