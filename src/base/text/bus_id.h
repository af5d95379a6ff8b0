// PCI addresses as NCCL reads and writes them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace railwise {

constexpr std::size_t kBusIdLength = 12;  // "0000:00:00.0"

// NCCL's busIdToInt64. Reads hexadecimal digits, and stops at the first character that is neither a digit nor
// '.' or ':'.
int64_t busIdToNumber(std::string_view busid);
// NCCL's int64ToBusId: writes "dddd:bb:dd.f".
std::string busIdText(int64_t number);
// Writes "0x3b001", the form in which NCCL writes GUIDs and hashes.
std::string hexText(uint64_t number);
// Is `text` "dddd:bb:dd.f" with hexadecimal digits of either case? NCCL's checkBDFFormat.
bool isBusId(std::string_view text);

}  // namespace railwise
