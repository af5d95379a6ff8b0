// Lines of a screen, and tables that fit any width: columns that matter less are left out where there is no
// room. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/top/text.h"

namespace railwise::observe::top {

// How a text looks on a terminal.
enum class Look : uint8_t {
  kPlain,
  kDim,

  kGood,
  kWarning,
  kBad,
  kTitle,
  kGoodNews,
  kWarningNews,
  kBadNews
};

struct Span {
  std::string text;  // clean
  Look look = Look::kPlain;
};

struct Line {
  std::vector<Span> spans;

  Line() = default;
  explicit Line(std::string text, Look look = Look::kPlain) { spans.push_back({std::move(text), look}); }
};

// Without looks and without blanks at the end, `width` columns at most.
std::string plainLine(const Line& line, int width, bool utf8);
// With looks as escape sequences, `width` columns at most. Titles and news are as wide as the screen.
// `columns` receives how many columns it takes. Without `color`: bold and reverse only.
std::string escapedLine(const Line& line, int width, bool utf8, bool color, int* columns);

struct Column {
  const char* title;
  int least;  // columns it needs
  int most;   // columns it takes if there is room and its texts are as long
  int worth;  // what is worth less is left out first
  bool right = false;
  Cut cut = Cut::kEnd;
  bool fills = false;  // takes the room that is left, also beyond `most`, at least up to its texts
};

struct Cell {
  std::string text;  // not cleaned
  Look look = Look::kPlain;
  std::optional<double> bar = {};  // instead of a text: a bar, filled to this share
};

class Table {
 public:
  Table(std::vector<Column> columns, bool utf8) : columns_(std::move(columns)), utf8_(utf8) {}

  // As many cells as there are columns. `below`: a second line for the row, "" for none.
  void add(std::vector<Cell> cells, const std::string& below = "", Look below_look = Look::kDim);
  // The title, then the rows. No line is wider than `width`.
  std::vector<Line> lines(int width) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::string below;
    Look below_look;
  };

  // The width of each column; 0: left out.
  std::vector<int> widths(int width) const;
  Line lineOf(const std::vector<Cell>& cells, const std::vector<int>& widths, Look everywhere) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  bool utf8_;
};

}  // namespace railwise::observe::top
