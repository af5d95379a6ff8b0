// PCI addresses as NCCL reads and writes them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace railwise::topo {

constexpr std::size_t kBusIdLength = 12;  // "0000:00:00.0"

// busIdToInt64: the hexadecimal digits up to the first character that is neither a digit nor '.' or ':'.
int64_t busIdToNumber(std::string_view busid);
// int64ToBusId: "dddd:bb:dd.f".
std::string busIdText(int64_t number);
// "0x3b001": how NCCL writes GUIDs and hashes.
std::string hexText(uint64_t number);
// "dddd:bb:dd.f" with hexadecimal digits, either case (checkBDFFormat).
bool isBusId(std::string_view text);

}  // namespace railwise::topo
