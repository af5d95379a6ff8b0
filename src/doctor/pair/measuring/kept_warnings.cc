#include "doctor/pair/measuring/kept_warnings.h"

#include <cstdarg>
#include <cstdio>

#include "doctor/pair/measuring/wire.h"

namespace railwise::doctor::pair {
namespace {

std::string& keptText() {
  static thread_local std::string kept;
  return kept;
}

[[gnu::format(printf, 5, 6)]] void keepWarning(int level, unsigned long, const char*, int, const char* format,
                                               ...) {
  if (level != log::kWarn || !keptText().empty()) return;
  char line[kMaxText];
  va_list values;
  va_start(values, format);
  (void)std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  keptText() = line;
}

}  // namespace

KeptWarnings::KeptWarnings() : before_(log::sink()) {
  keptText().clear();
  log::setSink(keepWarning);
}

std::string KeptWarnings::reasonOr(const char* otherwise) {
  return keptText().empty() ? otherwise : keptText();
}

}  // namespace railwise::doctor::pair
