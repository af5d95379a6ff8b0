// The test program, which is also the peer process of its own tests (peer_process.h).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <exception>

#include "softdev/kill_worker.h"
#include "softdev/peer_process.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--softdev-peer") == 0) {
    try {
      return railwise::softdev::test::servePeer(std::atoi(argv[2]));
    } catch (const std::exception&) {
      return 1;  // the test sees the connection close
    }
  }
  if (argc == 3 && std::strcmp(argv[1], "--softdev-peer-again") == 0)
    return railwise::softdev::test::serveAgain(std::atoi(argv[2]));
  if (argc == 3 && std::strcmp(argv[1], "--softdev-worker") == 0)
    return railwise::softdev::test::runWorker(std::atoi(argv[2]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
