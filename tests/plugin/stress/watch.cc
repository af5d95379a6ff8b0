#include "plugin/stress/watch.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "plugin/logger.h"

namespace railwise::test {
namespace {

constexpr std::size_t kShownWarnings = 6000;  // characters

thread_local std::string t_name = "main";

}  // namespace

void nameThread(const std::string& name) { t_name = name; }

void fail(const std::string& what) {
  static std::mutex mutex;
  mutex.lock();  // for good: the first failure is the one that counts
  std::string lines = warnings();
  if (lines.size() > kShownWarnings) lines.erase(0, lines.size() - kShownWarnings);
  std::printf("WRONG: %s: %s\n%s", t_name.c_str(), what.c_str(), lines.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

}  // namespace railwise::test
