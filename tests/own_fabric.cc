// In every test program, before main(): the test and the processes that it starts are on a software fabric of
// their own, so that nothing else that the user runs can disturb them.
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

const int set = setenv("RAILWISE_FABRIC", ("test" + std::to_string(getpid())).c_str(), 0);

}  // namespace
