#include "observe/top/text.h"

#include <algorithm>
#include <cmath>

#include "base/text/text_layout.h"

namespace railwise::observe::top {
namespace {

constexpr int kFillMost = 40;  // a bar that is longer says no more

bool fillsTheLine(Look look) {
  return look == Look::kTitle || look == Look::kGoodNews || look == Look::kWarningNews ||
         look == Look::kBadNews;
}

const char* escapeOf(Look look, bool color) {
  struct Escapes {
    const char* in_color;
    const char* without;
  };
  constexpr Escapes kEscapes[] = {{"", ""},                         // kPlain
                                  {"\x1b[2m", ""},                  // kDim
                                  {"\x1b[32m", ""},                 // kGood
                                  {"\x1b[33m", "\x1b[1m"},          // kWarning
                                  {"\x1b[1;31m", "\x1b[1m"},        // kBad
                                  {"\x1b[7m", "\x1b[7m"},           // kTitle
                                  {"\x1b[30;42m", "\x1b[1m"},       // kGoodNews
                                  {"\x1b[30;43m", "\x1b[1m"},       // kWarningNews
                                  {"\x1b[1;37;41m", "\x1b[1;7m"}};  // kBadNews
  const Escapes& its = kEscapes[static_cast<std::size_t>(look)];
  return color ? its.in_color : its.without;
}

std::string padded(std::string text, int width, bool right) {
  const int missing = std::max(0, width - textWidth(text));
  const std::string blanks(static_cast<std::size_t>(missing), ' ');
  return right ? blanks + text : text + blanks;
}

constexpr uint64_t kSecond = 1000000000;

struct Range {
  uint32_t first;
  uint32_t last;
  int width;
};
// Characters that are shown. All terminals agree on the width of these.
constexpr Range kShown[] = {
    {0x20, 0x7e, 1},     {0xa1, 0xac, 1},     {0xae, 0x2ff, 1},    {0x370, 0x482, 1},
    {0x48a, 0x52f, 1},   {0x1e00, 0x1fff, 1}, {0x2010, 0x2027, 1}, {0x2190, 0x21ff, 1},
    {0x2500, 0x259f, 1}, {0x3001, 0x3029, 2}, {0x30a0, 0x30ff, 2}, {0x3041, 0x3096, 2},
    {0x3400, 0x4dbf, 2}, {0x4e00, 0x9fff, 2}, {0xac00, 0xd7a3, 2}, {0xff01, 0xff60, 2}};

int widthOf(uint32_t character) {
  for (const Range& range : kShown)
    if (character >= range.first && character <= range.last) return range.width;
  return 0;
}

struct Character {
  std::size_t bytes = 1;
  int width = 0;  // 0: not shown
};

// The character at the beginning of `text`, which is not empty.
Character firstCharacter(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 0;
  if (bytes == 0 || bytes > text.size()) return {};  // four bytes: all that is so far out is not shown
  uint32_t character = bytes == 1 ? lead : lead & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    character = character << 6 | (byte(i) & 0x3f);
  }
  return {bytes, widthOf(character)};
}

// The last characters of `text` that take `width` columns at most.
std::string_view lastColumns(std::string_view text, int width) {
  int skip = textWidth(text) - width;
  while (skip > 0 && !text.empty()) {
    const Character next = firstCharacter(text);
    skip -= next.width;
    text.remove_prefix(next.bytes);
  }
  return text;
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }

// The number at the beginning of `text`, which it loses; zeros in front do not count.
std::string_view takeNumber(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && isDigit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (number.size() > 1 && number[0] == '0') number.remove_prefix(1);
  return number;
}

}  // namespace

std::string cleanText(std::string_view text, bool utf8) {
  std::string clean;
  while (!text.empty()) {
    const Character next = firstCharacter(text);
    if (next.width > 0 && (utf8 || next.bytes == 1)) clean += text.substr(0, next.bytes);
    else clean += '?';
    std::size_t bytes = next.bytes;
    // The further bytes of what is not shown need no sign of their own.
    if (next.width == 0)
      while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
    text.remove_prefix(bytes);
  }
  return clean;
}

int textWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character next = firstCharacter(text);
    width += next.width;
    text.remove_prefix(next.bytes);
  }
  return width;
}

std::string cutText(std::string_view text, int width, bool utf8, Cut cut) {
  if (textWidth(text) <= width) return std::string(text);
  if (width <= 0) return "";
  constexpr int kTail = 7;
  const std::string_view tail =
      cut == Cut::kMiddle && width > kTail + 1 ? lastColumns(text, kTail) : std::string_view();
  int left = width - 1 - textWidth(tail);
  std::string kept;
  while (!text.empty()) {
    const Character next = firstCharacter(text);
    if (next.width > left) break;
    left -= next.width;
    kept += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return kept + (utf8 ? "\u2026" : "~") + std::string(tail);
}

std::string barText(double share, int width, bool utf8) {
  const double full = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
  if (width < 3) return "";
  std::string text;
  if (utf8) {
    constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int eighths = static_cast<int>(std::lround(full * width * 8));
    if (eighths == 0 && full > 0) eighths = 1;
    int columns = eighths / 8;
    for (int i = 0; i < columns; ++i) text += "█";
    if (eighths % 8 != 0) {
      text += kEighths[eighths % 8];
      ++columns;
    }
    for (; columns < width; ++columns) text += "░";
    return text;
  }
  int columns = static_cast<int>(std::lround(full * (width - 2)));
  if (columns == 0 && full > 0) columns = 1;
  text.assign(static_cast<std::size_t>(columns), '#');
  text.resize(static_cast<std::size_t>(width - 2), '.');
  return "[" + text + "]";
}

std::string rateText(double bytes_per_s, bool bits) {
  const double rate = bytes_per_s * (bits ? 8 : 1) / 1e9;
  if (!(rate > 0)) return "0";
  if (rate < 0.001) return "<.001";
  if (rate < 0.1) return formatText("%.3f", rate);
  if (rate < 9.995) return formatText("%.2f", rate);
  if (rate < 99.95) return formatText("%.1f", rate);
  return formatText("%.0f", std::min(rate, 99999.0));
}

std::string countText(double count) {
  if (!(count > 0)) return "0";
  if (count < 9.95 && count != std::floor(count)) return formatText("%.1f", count);
  if (count < 999.5) return formatText("%.0f", count);
  constexpr const char* kUnits[] = {"k", "M", "G", "T"};
  for (const char* unit : kUnits) {
    count /= 1000;
    if (count < 9.95) return formatText("%.1f%s", count, unit);
    if (count < 999.5) return formatText("%.0f%s", count, unit);
  }
  return ">1P";
}

std::string ageText(uint64_t ns) {
  if (ns < kSecond) return formatText("%.0f ms", std::floor(static_cast<double>(ns) / 1e6));
  const uint64_t seconds = ns / kSecond;
  if (seconds < 10) return formatText("%.1f s", std::floor(static_cast<double>(ns) / 1e8) / 10);
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 6000) return std::to_string(seconds / 60) + " min";
  if (seconds < 36000)
    return formatText("%dh%02dm", static_cast<int>(seconds / 3600), static_cast<int>(seconds / 60 % 60));
  if (seconds < 172800) return std::to_string(seconds / 3600) + " h";
  const uint64_t days = seconds / 86400;
  return days > 9999 ? ">9999d" : std::to_string(days) + (days > 999 ? "d" : " d");
}

bool nameBefore(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (isDigit(a[0]) && isDigit(b[0])) {
      const std::string_view left = takeNumber(a), right = takeNumber(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      continue;
    }
    if (a[0] != b[0]) return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

std::string plainLine(const Line& line, int width, bool utf8) {
  std::string text;
  for (const Span& span : line.spans) text += span.text;
  text = cutText(text, width, utf8);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string escapedLine(const Line& line, int width, bool utf8, bool color, int* columns) {
  std::string text;
  int left = width;
  for (const Span& span : line.spans) {
    std::string shown = cutText(span.text, left, utf8);
    if (fillsTheLine(span.look) && &span == &line.spans.back()) shown = padded(std::move(shown), left, false);
    left -= textWidth(shown);
    const char* const escape = escapeOf(span.look, color);
    text += *escape == '\0' || shown.empty() ? shown : escape + shown + "\x1b[0m";
  }
  *columns = width - left;
  return text;
}

void Table::add(std::vector<Cell> cells, const std::string& below, Look below_look) {
  for (Cell& cell : cells) cell.text = cleanText(cell.text, utf8_);
  rows_.push_back({std::move(cells), cleanText(below, utf8_), below_look});
}

std::vector<int> Table::widths(int width) const {
  std::vector<int> widths;
  for (const Column& column : columns_) widths.push_back(column.least);
  const auto used = [&] {
    int sum = -1;
    for (const int one : widths) sum += one > 0 ? one + 1 : 0;
    return sum;
  };
  while (used() > width) {
    std::size_t worst = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (widths[i] > 0 && (worst == columns_.size() || columns_[i].worth < columns_[worst].worth)) worst = i;
    if (worst == columns_.size()) break;
    widths[worst] = 0;
  }
  std::vector<int> wanted;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int longest = textWidth(columns_[i].title);
    for (const Row& row : rows_) longest = std::max(longest, textWidth(row.cells[i].text));
    wanted.push_back(columns_[i].fills ? std::max(longest, kFillMost) : std::min(longest, columns_[i].most));
  }
  // One column at a time, so that all are cut alike; what fills takes the rest.
  for (const bool fills : {false, true}) {
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < columns_.size() && used() < width; ++i) {
        if (columns_[i].fills != fills || widths[i] == 0 || widths[i] >= wanted[i]) continue;
        ++widths[i];
        grown = true;
      }
    }
  }
  return widths;
}

Line Table::lineOf(const std::vector<Cell>& cells, const std::vector<int>& widths, Look everywhere) const {
  Line line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    const Cell& cell = cells[i];
    std::string text = cell.bar ? barText(*cell.bar, widths[i], utf8_)
                                : cutText(cell.text, widths[i], utf8_, columns_[i].cut);
    text = padded(std::move(text), widths[i], columns_[i].right);
    const Look look = everywhere == Look::kPlain ? cell.look : everywhere;
    if (!line.spans.empty() && line.spans.back().look == look) line.spans.back().text += " " + text;
    else {
      if (!line.spans.empty()) line.spans.push_back({" ", Look::kPlain});
      line.spans.push_back({std::move(text), look});
    }
  }
  return line;
}

std::vector<Line> Table::lines(int width) const {
  const std::vector<int> column_widths = widths(width);
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.push_back({column.title});
  std::vector<Line> lines = {lineOf(titles, column_widths, Look::kTitle)};
  for (const Row& row : rows_) {
    lines.push_back(lineOf(row.cells, column_widths, Look::kPlain));
    if (!row.below.empty()) lines.emplace_back("    " + row.below, row.below_look);
  }
  return lines;
}

}  // namespace railwise::observe::top
