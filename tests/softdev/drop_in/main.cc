// Linked to the drop-in as any program is to libibverbs; the devices of all tests are set here, before the
// first call.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "softdev/drop_in/fabric.h"

namespace railwise::drop_in::test {

std::string devicesText() {
  const std::string fabric = "test" + std::to_string(getpid());
  return "link=ib,fabric=" + fabric + ";link=roce,speed=100000,fabric=" + fabric;
}

}  // namespace railwise::drop_in::test

int main(int argc, char** argv) {
  setenv("RAILWISE_DEVICE", ("software:" + railwise::drop_in::test::devicesText()).c_str(), 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
