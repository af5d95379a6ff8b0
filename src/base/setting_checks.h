// Is the text of a setting of the accepted form? config.def names these in its rows. Pure functions.
#pragma once

#include <string_view>

namespace railwise {

// One of the words of `choices`, which commas separate.
bool isOneOf(std::string_view text, std::string_view choices);
// "0000:3b:00.0", or without the domain, "3b:00.0". Hexadecimal digits of either case.
bool isPciAddress(std::string_view text);
// "10.1.0.0/16" or "2001:db8::/32".
bool isAddressRange(std::string_view text);
// NCCL_IB_HCA's grammar (name_selection.h): every field after a name is empty, -1 or a number from 0 to
// 32767.
bool isHcaSelection(std::string_view text);

}  // namespace railwise
