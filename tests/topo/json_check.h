// Whether a text is one JSON value, for tests that have no other reader at hand.
#pragma once

#include <cctype>
#include <string_view>

namespace railwise::topo::test {

class JsonCheck {
 public:
  static bool isJson(std::string_view text) {
    JsonCheck check{text};
    return check.value(0) && (check.space(), check.at_ == text.size());
  }

 private:
  explicit JsonCheck(std::string_view text) : text_(text) {}

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) { return peek() == c && (++at_, true); }
  void space() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }
  bool word(std::string_view expected) {
    return text_.substr(at_, expected.size()) == expected && (at_ += expected.size(), true);
  }

  bool value(int depth) {
    constexpr int kDeep = 64;
    if (depth > kDeep) return false;
    space();
    if (peek() == '{') return list('{', '}', true, depth);
    if (peek() == '[') return list('[', ']', false, depth);
    if (peek() == '"') return string();
    if (std::isdigit(static_cast<unsigned char>(peek())) != 0 || peek() == '-') return number();
    return word("true") || word("false") || word("null");
  }

  bool list(char open, char close, bool keys, int depth) {
    if (!take(open)) return false;
    space();
    if (take(close)) return true;
    do {
      space();
      if (keys && !(string() && (space(), take(':')))) return false;
      if (!value(depth + 1)) return false;
      space();
    } while (take(','));
    return take(close);
  }

  bool string() {
    if (!take('"')) return false;
    while (at_ < text_.size() && peek() != '"') {
      if (static_cast<unsigned char>(peek()) < ' ') return false;
      at_ += peek() == '\\' ? 2 : 1;
    }
    return take('"');
  }

  bool number() {
    const std::size_t begin = at_;
    while (std::string_view("+-.eE0123456789").find(peek()) != std::string_view::npos && peek() != '\0')
      ++at_;
    return at_ > begin;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace railwise::topo::test
