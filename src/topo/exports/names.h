// The grammars of names in the exports, and how a text becomes such a name. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace railwise::topo {

// Can it be the name of an RDMA device or network interface: letters, digits, '_', '.' and '-'? Such a name
// needs no quotes in a shell, a list, JSON or a configuration file.
bool isDeviceName(std::string_view name);

// A label of DNS (RFC 1123) from a text: "mlx5_0" becomes "mlx5-0". At most 63 characters. "": the text
// has no letter and no digit.
std::string dnsLabel(std::string_view text);

// A word for Slurm: lower case, and characters other than letters, digits, '.' and '-' become '_'.
std::string slurmWord(std::string_view text);

// The text in single quotes, as a shell reads it back; as it is if it needs none.
std::string shellWord(const std::string& text);

// A text that XML and its attributes can hold: bytes that are not UTF-8, and characters that XML forbids,
// become U+FFFD or '?'.
std::string xmlText(std::string_view text);

}  // namespace railwise::topo
