#include "observe/top/table.h"

#include <algorithm>

namespace railwise::observe::top {
namespace {

constexpr int kFillMost = 40;  // a bar that is longer says no more

bool fillsTheLine(Look look) {
  return look == Look::kTitle || look == Look::kGoodNews || look == Look::kWarningNews ||
         look == Look::kBadNews;
}

const char* escapeOf(Look look, bool color) {
  switch (look) {
    case Look::kPlain:
      return "";
    case Look::kDim:
      return color ? "\x1b[2m" : "";
    case Look::kGood:
      return color ? "\x1b[32m" : "";
    case Look::kWarning:
      return color ? "\x1b[33m" : "\x1b[1m";
    case Look::kBad:
      return color ? "\x1b[1;31m" : "\x1b[1m";
    case Look::kTitle:
      return "\x1b[7m";
    case Look::kGoodNews:
      return color ? "\x1b[30;42m" : "\x1b[1m";
    case Look::kWarningNews:
      return color ? "\x1b[30;43m" : "\x1b[1m";
    case Look::kBadNews:
      return color ? "\x1b[1;37;41m" : "\x1b[1;7m";
  }
  return "";
}

std::string padded(std::string text, int width, bool right) {
  const int missing = std::max(0, width - textWidth(text));
  const std::string blanks(static_cast<std::size_t>(missing), ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

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
