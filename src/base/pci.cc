#include "base/pci.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace railwise {

int64_t busIdToNumber(std::string_view busid) {
  constexpr std::size_t kMaxDigits = 16;
  std::string digits;
  for (const char c : busid) {
    if (c == '.' || c == ':') continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0 || digits.size() == kMaxDigits) break;
    digits += c;
  }
  return std::strtol(digits.c_str(), nullptr, 16);
}

std::string busIdText(int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%04lx:%02lx:%02lx.%01lx", static_cast<unsigned long>(number >> 20),
                static_cast<unsigned long>((number & 0xff000) >> 12),
                static_cast<unsigned long>((number & 0xff0) >> 4), static_cast<unsigned long>(number & 0xf));
  return text;
}

std::string hexText(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(number));
  return text;
}

bool isBusId(std::string_view text) {
  if (text.size() != 12 || text[4] != ':' || text[7] != ':' || text[10] != '.') return false;
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 8, 9, 11})
    if (std::isxdigit(static_cast<unsigned char>(text[i])) == 0) return false;
  return true;
}

}  // namespace railwise
