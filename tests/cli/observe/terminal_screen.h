// The screen of a terminal, as railwise top draws it: understands the escape sequences that railwise top
// uses and no other one. What it does not understand is an error.
#pragma once

#include <string>
#include <vector>

namespace railwise::cli::test {

class TerminalScreen {
 public:
  TerminalScreen(int columns, int rows) { resize(columns, rows); }

  void resize(int columns, int rows) {
    columns_ = columns;
    rows_ = rows;
    for (auto* lines : {&main_, &alternate_}) {
      lines->resize(static_cast<std::size_t>(rows));
      for (auto& line : *lines) line.resize(static_cast<std::size_t>(columns), " ");
    }
  }

  void take(const std::string& bytes) {
    rest_ += bytes;
    while (!rest_.empty() && error_.empty()) {
      const std::size_t taken = takeOne();
      if (taken == 0) return;  // the rest is still to come
      rest_.erase(0, taken);
    }
  }

  // "" while all was understood.
  const std::string& error() const { return error_; }
  bool alternate() const { return alternate_shown_; }
  bool cursorShown() const { return cursor_shown_; }
  bool wraps() const { return wraps_; }
  bool plain() const { return plain_; }  // no look is left on
  bool colored() const { return colored_; }

  std::string line(int row) const {
    std::string text;
    for (const std::string& cell : lines()[static_cast<std::size_t>(row)]) text += cell;
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }
  std::string text() const {
    std::string text;
    for (int row = 0; row < rows_; ++row) text += line(row) + "\n";
    return text;
  }
  bool shows(const std::string& part) const { return text().find(part) != std::string::npos; }

 private:
  using Lines = std::vector<std::vector<std::string>>;

  const Lines& lines() const { return alternate_shown_ ? alternate_ : main_; }
  Lines& lines() { return alternate_shown_ ? alternate_ : main_; }

  std::size_t takeOne() {
    const auto lead = static_cast<unsigned char>(rest_[0]);
    if (lead == '\r') return column_ = 0, 1;
    if (lead == '\n') {
      if (row_ + 1 < rows_) ++row_;
      else error_ = "the screen would scroll";
      return 1;
    }
    if (lead == 0x1b) return takeSequence();
    if (lead < 0x20 || lead == 0x7f) return error_ = "control character " + std::to_string(lead), 1;
    const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (rest_.size() < bytes) return 0;
    if (column_ >= columns_) return error_ = "row " + std::to_string(row_) + " is wider than the screen", 1;
    lines()[static_cast<std::size_t>(row_)][static_cast<std::size_t>(column_++)] = rest_.substr(0, bytes);
    return bytes;
  }

  std::size_t takeSequence() {
    if (rest_.size() < 2) return 0;
    const std::size_t end = rest_.find_first_not_of("0123456789;?", 2);
    if (end == std::string::npos) return 0;
    const std::string sequence = rest_.substr(1, end);
    if (sequence == "[H") row_ = column_ = 0;
    else if (sequence == "[K") erase(row_, column_);
    else if (sequence == "[2J")
      for (int row = 0; row < rows_; ++row) erase(row, 0);
    else if (sequence == "[?1049h") alternate_shown_ = true;
    else if (sequence == "[?1049l") alternate_shown_ = false;
    else if (sequence == "[?25h") cursor_shown_ = true;
    else if (sequence == "[?25l") cursor_shown_ = false;
    else if (sequence == "[?7h") wraps_ = true;
    else if (sequence == "[?7l") wraps_ = false;
    else if (sequence[0] == '[' && sequence.back() == 'm') {
      plain_ = sequence == "[0m";
      if (sequence.find('3') != std::string::npos || sequence.find('4') != std::string::npos) colored_ = true;
    } else error_ = "escape sequence " + sequence;
    return end + 1;
  }

  void erase(int row, int from) {
    if (from >= columns_) error_ = "erases the last column of row " + std::to_string(row);
    for (int column = from; column < columns_; ++column)
      lines()[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = " ";
  }

  int columns_ = 0;
  int rows_ = 0;
  int column_ = 0;
  int row_ = 0;
  bool alternate_shown_ = false;
  bool cursor_shown_ = true;
  bool wraps_ = true;
  bool plain_ = true;
  bool colored_ = false;
  Lines main_;
  Lines alternate_;
  std::string rest_;
  std::string error_;
};

}  // namespace railwise::cli::test
