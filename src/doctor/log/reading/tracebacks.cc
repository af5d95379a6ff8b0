#include "doctor/log/reading/tracebacks.h"

#include <algorithm>
#include <cctype>

#include "base/text/words.h"

namespace railwise::doctor {
namespace {

// A broken log may name any ranks.
constexpr std::size_t kMostOpen = 1UL << 16;

bool isNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// "ValueError: loss is nan", "torch.cuda.OutOfMemoryError: ...", "KeyboardInterrupt". Other output may stand
// within a traceback, so only names that exceptions have count.
bool isException(std::string_view text) {
  const std::string_view name = firstWord(text, ": ");
  if (name.size() < text.size() && text[name.size()] != ':') return false;
  if (name.empty() || !std::ranges::all_of(name, isNameCharacter)) return false;
  const std::string_view type = name.substr(name.rfind('.') + 1);
  static constexpr std::string_view kEnds[] = {"Error",     "Exception", "Interrupt", "Exit",
                                               "Iteration", "Expired",   "Timeout"};
  return std::ranges::any_of(
      kEnds, [&](std::string_view end) { return type.size() > end.size() && type.ends_with(end); });
}

// Prefixes of one kind: only their digits (a time) may differ.
bool isAlike(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return x == y || (digit(x) && digit(y)); });
}

// "W1129 03:12:44.1 990 torch/x.py:7] ": a warning or a remark of PyTorch's.
bool isRemark(std::string_view prefix) {
  for (std::size_t at = prefix.find_first_of("WIV"); at != std::string_view::npos;
       at = prefix.find_first_of("WIV", at + 1))
    if (isAlike(prefix.substr(at + 1, 8), "0000 00:")) return true;
  return false;
}

}  // namespace

std::string_view Tracebacks::exceptionIn(const LogLine& line) {
  const std::string_view text = line.text;
  if (text.find("Exception ignored in") != std::string_view::npos && ignored_.size() < kMostOpen)
    ignored_.insert(line.rank);
  if (const std::size_t at = text.find("Traceback (most recent call last)"); at != std::string_view::npos) {
    const std::string_view prefix = text.substr(0, at);
    const bool ignored = ignored_.erase(line.rank) > 0;
    // torchrun's report has "traceback : Traceback (most ..." and no prefix in the lines that follow.
    if (open_.size() < kMostOpen)
      open_[line.rank] = {std::string(prefix.starts_with("traceback ") ? "" : prefix),
                          !ignored && !isRemark(prefix)};
    return {};
  }
  const auto open = open_.find(line.rank);
  std::string_view words;
  if (open != open_.end() && isAlike(text.substr(0, open->second.prefix.size()), open->second.prefix))
    words = text.substr(open->second.prefix.size());
  else if (text.starts_with("[rank"))  // PyTorch puts it before an exception that ends the program
    words = after(text, "]:");
  words = trimmed(words);
  if (!isException(words)) return {};
  const bool ends = open == open_.end() || open->second.ends;
  if (open != open_.end()) open_.erase(open);
  return ends ? words : std::string_view();
}

}  // namespace railwise::doctor
