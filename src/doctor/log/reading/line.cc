#include "doctor/log/reading/line.h"

#include <algorithm>
#include <charconv>

#include "base/text/words.h"

namespace railwise::doctor {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isHostCharacter(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
}

constexpr std::string_view kBlanks = " \t";

// Takes the last word off `head`.
std::string_view takeLastWord(std::string_view& head) {
  head = trimmed(head, kBlanks);
  const std::size_t blank = head.find_last_of(" \t");
  const std::size_t from = blank == std::string_view::npos ? 0 : blank + 1;
  const std::string_view word = head.substr(from);
  head = head.substr(0, from);
  return word;
}

// "12-24 10:00:01.5" of text that begins so; `digits`: a pattern in which 0 stands for any digit.
bool fits(std::string_view text, std::string_view digits) {
  if (text.size() < digits.size()) return false;
  for (std::size_t i = 0; i < digits.size(); ++i)
    if (digits[i] == '0' ? !isDigit(text[i]) : digits[i] != '?' && text[i] != digits[i]) return false;
  return true;
}

// The seconds' fraction: ".250".
std::string_view fractionOf(std::string_view text) {
  if (text.empty() || (text[0] != '.' && text[0] != ',')) return {};
  std::size_t end = 1;
  while (end < text.size() && end < 10 && isDigit(text[end])) ++end;
  return end > 1 ? text.substr(0, end) : std::string_view();
}

bool isGlogLevel(char c) { return c == 'E' || c == 'W' || c == 'I' || c == 'F'; }

std::string timeOf(std::string_view month_day, std::string_view clock, std::string_view rest) {
  std::string time(month_day);
  if (time.size() == 4) time.insert(2, "-");  // glog's 1124
  time += time.empty() ? "" : " ";
  time += clock;
  const std::string_view fraction = fractionOf(rest);
  if (!fraction.empty()) time.append(".").append(fraction.substr(1));
  return time;
}

// "1128" of "[Sat Nov 28 " and "Nov  8 ", as the kernel's log and syslog write it. "": no day.
std::string namedDay(std::string_view before) {
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (before.size() < 7) return "";
  const std::string_view month = before.substr(before.size() - 7, 3),
                         day = before.substr(before.size() - 3, 2);
  const std::size_t at = kMonths.find(month);
  if (at == std::string_view::npos || at % 3 != 0 || !isDigit(day[1])) return "";
  std::string text = std::to_string(at / 3 + 1);
  if (text.size() == 1) text.insert(0, "0");
  return text + (isDigit(day[0]) ? day[0] : '0') + day[1];
}

// The last time in a prefix: the writer's own, and not the container runtime's before it.
std::string lastTime(std::string_view prefix) {
  std::string found;
  for (std::size_t at = 0; at + 8 <= prefix.size(); ++at) {
    const std::string_view rest = prefix.substr(at);
    if (fits(rest, "0000-00-00?00:00:00")) {
      found = timeOf(rest.substr(5, 5), rest.substr(11, 8), rest.substr(19));
      at += 18;
    } else if (at > 0 && isGlogLevel(prefix[at - 1]) && fits(rest, "0000 00:00:00")) {
      found = timeOf(rest.substr(0, 4), rest.substr(5, 8), rest.substr(13));
      at += 12;
    } else if (at > 0 && isGlogLevel(prefix[at - 1]) && fits(rest, "000 00:00:00")) {  // PyTorch: June is 6
      found = timeOf("0" + std::string(rest.substr(0, 3)), rest.substr(4, 8), rest.substr(12));
      at += 11;
    } else if (fits(rest, "00:00:00") && (at == 0 || !isDigit(prefix[at - 1]))) {
      found = timeOf(namedDay(prefix.substr(0, at)), rest.substr(0, 8), rest.substr(8));
      at += 7;
    }
  }
  return found;
}

// mpirun: "[1,3]<stdout>:", "[job@1,3]<stderr>:". srun --label: "3: ", " 13: ". torchrun with full ranks and
// PyTorch: "[rank3]:", "[Rank 3]". "[default3]:" has the rank on its node, which says nothing.
int rankOf(std::string_view prefix) {
  const std::size_t stream = prefix.find("]<std");
  if (stream != std::string_view::npos) {
    std::size_t from = stream;
    while (from > 0 && isDigit(prefix[from - 1])) --from;
    if (from > 0 && prefix[from - 1] == ',') return leadingNumber(prefix.substr(from));
  }
  for (const std::string_view key : {"[rank", "[Rank "}) {
    const int rank = numberAfter(prefix, key);
    if (rank >= 0) return rank;
  }
  const std::string_view start = trimmed(prefix, kBlanks);
  const std::size_t colon = start.find_first_not_of("0123456789");
  if (colon != std::string_view::npos && colon > 0 && start[colon] == ':' &&
      (colon + 1 == start.size() || start[colon + 1] == ' '))
    return leadingNumber(start);
  return -1;
}

// "host:pid:tid", perhaps glued to what stands before it. Answers where the host begins; npos: another form.
std::size_t parseOwner(std::string_view word, LogLine& line) {
  const std::size_t second = word.rfind(':');
  if (second == std::string_view::npos || second == 0) return std::string_view::npos;
  const std::size_t first = word.rfind(':', second - 1);
  if (first == std::string_view::npos) return std::string_view::npos;
  const std::string_view pid = word.substr(first + 1, second - first - 1);
  const std::string_view tid = word.substr(second + 1);
  if (pid.empty() || tid.empty() || !std::ranges::all_of(pid, isDigit) || !std::ranges::all_of(tid, isDigit))
    return std::string_view::npos;
  std::size_t host = first;
  while (host > 0 && isHostCharacter(word[host - 1])) --host;
  if (host == first) return std::string_view::npos;
  line.host = word.substr(host, first - host);
  line.pid = pid;
  return host;
}

// A place in a source has few words, but for plugins in C++ that print the whole signature of a function.
constexpr int kMostSourceWords = 32;

bool isDevice(std::string_view word) {
  if (word.size() < 3 || !word.starts_with('[') || !word.ends_with(']')) return false;
  const std::string_view number = word.substr(word[1] == '-' ? 2 : 1);  // -1: before a device is chosen
  return number.size() > 1 && std::all_of(number.begin(), number.end() - 1, isDigit);
}

// Reads the words before "NCCL INFO" from their end. Answers where the record begins in `head`.
std::size_t parseHead(std::string_view head, LogLine& line) {
  std::string_view rest = head;
  std::string_view word = takeLastWord(rest);
  const char* source_end = word.data() + word.size();
  if (line.kind == LineKind::kWarn) {
    if (word.starts_with('(') && word.ends_with(')')) {  // the function, 2.30
      word = takeLastWord(rest);
      source_end = word.data() + word.size();
    }
    const char* source = source_end;
    for (int words = 0; words < kMostSourceWords && !isDevice(word) && !word.empty(); ++words) {
      source = word.data();
      word = takeLastWord(rest);
    }
    line.source = std::string_view(source, static_cast<std::size_t>(source_end - source));
  }
  if (!isDevice(word)) return std::string_view::npos;
  line.device = leadingNumber(word.substr(1));
  word = takeLastWord(rest);
  const std::size_t host = parseOwner(word, line);
  if (host == std::string_view::npos) return std::string_view::npos;
  return static_cast<std::size_t>(word.data() - head.data()) + host;
}

struct Marker {
  std::string_view words;
  LineKind kind;
};
constexpr Marker kMarkers[] = {{" NCCL INFO ", LineKind::kInfo}, {" NCCL WARN ", LineKind::kWarn}};

// The next "NCCL INFO" or "NCCL WARN" from `from` on; npos: none.
std::size_t nextMarker(std::string_view text, std::size_t from, LineKind& kind) {
  for (std::size_t at = text.find(" NCCL ", from); at != std::string_view::npos;
       at = text.find(" NCCL ", at + 1)) {
    for (const Marker& marker : kMarkers) {
      if (!text.substr(at).starts_with(marker.words)) continue;
      kind = marker.kind;
      return at;
    }
  }
  return std::string_view::npos;
}

LogLine otherLine(std::string_view plain) {
  LogLine line;
  line.text = trimmed(plain, kBlanks);
  // Somebody has cut off who wrote the line.
  for (const Marker& marker : kMarkers) {
    const std::string_view words = marker.words.substr(1);
    if (!line.text.starts_with(words)) continue;
    line.kind = marker.kind;
    line.host = "unknown";
    line.pid = "0";
    line.text = trimmed(line.text.substr(words.size()), kBlanks);
    return line;
  }
  const std::string_view start = plain.substr(0, 96);
  line.rank = rankOf(start);
  line.time = lastTime(start);
  return line;
}

// Undoes what JSON does to the bytes that logs have.
void appendUnescaped(std::string_view text, std::string& buffer) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      buffer += text[i];
      continue;
    }
    const char next = text[++i];
    const std::string_view code = text.substr(i);
    if (next == 'n' || next == 'r' || next == 't') buffer += ' ';
    else if (code.starts_with("u003c")) buffer += '<', i += 4;
    else if (code.starts_with("u003e")) buffer += '>', i += 4;
    else if (code.starts_with("u001b")) buffer += '\x1b', i += 4;
    else buffer += next;
  }
}

// The text without terminal sequences (ESC [ ... letter) and bytes that are no text.
std::string withoutColours(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
    } else if (text[i] == '\t' || static_cast<unsigned char>(text[i]) >= ' ') {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::string_view plainText(std::string_view line, std::string& buffer) {
  constexpr std::string_view kDocker = "{\"log\":\"";
  const bool docker = line.starts_with(kDocker);
  const bool clean =
      std::ranges::all_of(line, [](char c) { return static_cast<unsigned char>(c) >= ' ' || c == '\t'; });
  if (clean && !docker) return line;
  std::string_view text = line;
  std::string unescaped;
  if (docker) {
    const std::string_view inner = line.substr(kDocker.size());
    appendUnescaped(inner.substr(0, inner.find("\",\"")), unescaped);
    text = unescaped;
  }
  buffer = withoutColours(text);
  return buffer;
}

std::vector<LogLine> parseLine(std::string_view plain) {
  std::vector<LogLine> lines;
  LineKind kind = LineKind::kOther;
  std::size_t record = 0;  // where the text of the record before ends at the latest
  std::size_t at = nextMarker(plain, 0, kind);
  while (at != std::string_view::npos) {
    LogLine line;
    line.kind = kind;
    const std::size_t begins = parseHead(plain.substr(record, at - record), line);
    const std::size_t text = at + kMarkers[0].words.size();
    if (begins != std::string_view::npos) {
      if (!lines.empty()) {
        LogLine& before = lines.back();
        before.text = before.text.substr(0, static_cast<std::size_t>(line.host.data() - before.text.data()));
      }
      const std::string_view prefix = plain.substr(record, begins);
      line.rank = rankOf(prefix);
      line.time = lastTime(prefix);
      line.text = plain.substr(text);
      lines.push_back(line);
      record = text;
    }
    at = nextMarker(plain, text - 1, kind);
  }
  if (lines.empty()) return {otherLine(plain)};
  for (LogLine& line : lines) line.text = trimmed(line.text, kBlanks);
  return lines;
}

std::string_view after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

std::string_view firstWord(std::string_view text, std::string_view ends) {
  return text.substr(0, text.find_first_of(ends));
}

std::vector<std::string_view> wordsIn(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

int leadingNumber(std::string_view text) {
  int number = -1;
  if (text.empty() || !isDigit(text[0])) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : -1;
}

int numberAfter(std::string_view text, std::string_view key) { return leadingNumber(after(text, key)); }

double secondsOf(const std::string& time) {
  const std::size_t blank = time.find(' ');
  if (time.empty()) return -1;
  double seconds = 0;
  if (blank == 5) {
    static constexpr int kDaysBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const int month = std::clamp(leadingNumber(time), 1, 12);
    seconds = (kDaysBefore[month - 1] + leadingNumber(time.substr(3))) * 86400.0;
  }
  const std::string clock = time.substr(blank == std::string::npos ? 0 : blank + 1);
  if (clock.size() < 8) return -1;
  seconds +=
      leadingNumber(clock) * 3600 + leadingNumber(clock.substr(3)) * 60 + leadingNumber(clock.substr(6));
  if (clock.size() > 9) {
    double digit = 0.1;
    for (const char c : clock.substr(9)) seconds += digit * (c - '0'), digit /= 10;
  }
  return seconds;
}

std::optional<double> secondsBetween(const std::string& from, const std::string& to) {
  const double begin = secondsOf(from), end = secondsOf(to);
  const bool alike = (from.find(' ') == std::string::npos) == (to.find(' ') == std::string::npos);
  return begin < 0 || end < 0 || !alike ? std::nullopt : std::optional(end - begin);
}

}  // namespace railwise::doctor
