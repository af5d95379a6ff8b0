// In every test program, before main(): the test and the processes that it starts are on a software fabric of
// their own, so that nothing else that the user runs can disturb them. Their records lie in a folder for
// tests, where a record is removed as soon as its process is gone.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

const int fabric = setenv("RAILWISE_FABRIC", ("test" + std::to_string(getpid())).c_str(), 0);

const int records = [] {
  if (std::getenv("RAILWISE_METRICS_DIR") != nullptr) return 0;
  const std::string folder = "/dev/shm/railwise-tests-" + std::to_string(getuid());
  (void)mkdir(folder.c_str(), 0700);
  return setenv("RAILWISE_METRICS_DIR", folder.c_str(), 1) + setenv("RAILWISE_METRICS_KEEP", "0", 0);
}();

}  // namespace
