#include "base/setting_checks.h"

#include <algorithm>
#include <cctype>

#include "base/address_range.h"
#include "base/name_selection.h"

namespace railwise {
namespace {

bool hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace

bool isOneOf(std::string_view text, std::string_view choices) {
  while (!choices.empty()) {
    const auto comma = choices.find(',');
    if (text == choices.substr(0, comma)) return true;
    choices = comma == std::string_view::npos ? std::string_view() : choices.substr(comma + 1);
  }
  return false;
}

bool isPciAddress(std::string_view text) {
  if (const auto colon = text.find(':'); colon != text.rfind(':')) {
    // NCCL and CUDA write domains of four or eight digits.
    if (!hexadecimal(text.substr(0, colon), 4) && !hexadecimal(text.substr(0, colon), 8)) return false;
    text.remove_prefix(colon + 1);
  }
  return text.size() == 7 && hexadecimal(text.substr(0, 2), 2) && text[2] == ':' &&
         hexadecimal(text.substr(3, 2), 2) && text[5] == '.' && text[6] >= '0' && text[6] <= '7';
}

bool isAddressRange(std::string_view text) { return parseAddressRange(text).has_value(); }

bool isHcaSelection(std::string_view text) { return parsePortSelection(text).has_value(); }

}  // namespace railwise
