// Text for a terminal of a known width: what comes from outside is cleaned first, then measured, cut and
// filled. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text/words.h"

namespace railwise::observe::top {

// Copies `text` and replaces by '?': control characters, bytes that are not UTF-8, and characters that are
// not as wide on every terminal (combining marks, directions, emoji). Without `utf8` all that is not ASCII.
std::string cleanText(std::string_view text, bool utf8);

// Columns that a clean text takes.
int textWidth(std::string_view text);

enum class Cut : uint8_t {
  kEnd,     // keeps the beginning: "mlx5_bo~"
  kMiddle,  // keeps the beginning and the last 7 columns: "gpu-no~:123456"
};
// Makes a clean text as wide as `width` at most. A sign at the cut says that something is missing.
std::string cutText(std::string_view text, int width, bool utf8, Cut cut = Cut::kEnd);

// A bar of `width` columns, filled to `share` (0 to 1).
std::string barText(double share, int width, bool utf8);

// Bytes per second in GB/s, or in Gb/s with `bits`, in at most 5 columns: "0.01", "12.3", "400".
std::string rateText(double bytes_per_s, bool bits);
// A count in at most 4 columns: "999", "4.1k", "41k", "2.0M".
std::string countText(double count);
// A time in at most 6 columns: "140 ms", "3.2 s", "45 s", "7 min", "3h20m", "12 d".
std::string ageText(uint64_t ns);

// A few numbers and short words, as printf.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);
// Orders names as people do: mlx5_2 before mlx5_10.
bool nameBefore(std::string_view a, std::string_view b);

}  // namespace railwise::observe::top
