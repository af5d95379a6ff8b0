// What the code under test says, kept instead of shown. Any thread may log meanwhile.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include "base/log.h"

namespace railwise::test {

// Takes the place of the log's sink for as long as it lives; one at a time.
class Said {
 public:
  Said() {
    clear();
    log::setSink(keep);
  }
  ~Said() { log::setSink(nullptr); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  // A line each, in the order in which they came.
  std::string all() const { return copy(kept().all); }
  std::string warnings() const { return copy(kept().warnings); }
  void clear() {
    const std::lock_guard lock(kept().mutex);
    kept().all.clear();
    kept().warnings.clear();
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::string all;
    std::string warnings;
  };
  static Kept& kept() {
    static Kept it;
    return it;
  }
  static std::string copy(const std::string& text) {
    const std::lock_guard lock(kept().mutex);
    return text;
  }
  [[gnu::format(printf, 5, 6)]] static void keep(int level, unsigned long, const char*, int,
                                                 const char* format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const std::string line = std::string(text) + "\n";
    const std::lock_guard lock(kept().mutex);
    kept().all += line;
    if (level == log::kWarn) kept().warnings += line;
  }
};

}  // namespace railwise::test
