// The typed suite. On real devices (test_device.h) every test is also asked what it left in the kernel.
#include <gtest/gtest.h>

#include "tests/plugin/kernel_leaks.h"
#include "tests/plugin/test_device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Before the printer sees the end of a test: listeners hear of ends in the opposite order.
  if (railwise::test::onRealDevices())
    testing::UnitTest::GetInstance()->listeners().Append(new railwise::test::KernelLeaks);
  return RUN_ALL_TESTS();
}
