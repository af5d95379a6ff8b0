#include "topo/document/xml_scanner.h"

#include <cstdio>

namespace railwise::topo {
namespace {

constexpr std::size_t kMaxText = kXmlMaxText;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool endsToken(char c) { return c == ' ' || c == '>' || c == '/' || c == '\n' || c == '\r'; }
bool isLineEnd(char c) { return c == '\n' || c == '\r'; }

// Writes a character in a form that a message can show.
std::string shownChar(char c) {
  if (c > ' ' && c < 127) return std::string("'") + c + "'";
  switch (c) {
    case ' ':
      return "a space";
    case '\t':
      return "a tab";
    case '\n':
    case '\r':
      return "a line break";
    default:
      break;
  }
  char text[16];
  std::snprintf(text, sizeof text, "byte 0x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string shownWord(std::string_view word) {
  std::string text;
  for (const char c : word.substr(0, 40)) text += c >= ' ' && c < 127 ? c : '?';
  if (word.size() > 40) text += "...";
  return text;
}

// NCCL works with C strings, so a NUL byte ends the text.
std::string_view TagScanner::cut(std::size_t begin, std::size_t end) const {
  const std::string_view whole = text_.substr(begin, end - begin);
  return whole.substr(0, whole.find('\0'));
}

bool TagScanner::take(char& c) {
  if (at_ == text_.size()) return false;
  c = text_[at_++];
  if (c == '\n') {
    line_++;
    line_begin_ = at_;
  }
  return true;
}

bool TagScanner::takeToken(Role role, ScannedAttribute& token, char& last) {
  const std::size_t begin = at_;
  token.position = here();
  token.value = {};
  for (;;) {
    const std::size_t end = at_;
    char c = 0;
    if (!take(c)) {
      return fail(token.position, "the file ends inside a tag; close <" + shownWord(tag_name_) + " with '>'");
    }
    token.name = cut(begin, end);
    if (c == '=') {
      if (role != Role::kAttribute) return failAssignment(token.position, role, token.name);
      return takeValue(token, last);
    }
    if (end - begin == kMaxText) return failLength(token.position, role, token.name);
    if (endsToken(c)) {
      last = c;
      return true;
    }
  }
}

bool TagScanner::takeValue(ScannedAttribute& token, char& last) {
  const XmlPosition quote_position = here();
  const std::string name = shownWord(token.name);
  char quote = 0;
  if (!take(quote))
    return fail(quote_position, "the file ends after " + name + "=; give it a value and close the tag");
  if (quote != '"' && quote != '\'') {
    return fail(quote_position, "the value of " + name + " is not in quotes; write " + name + "=\"...\"");
  }
  const std::size_t begin = at_;
  for (;;) {
    const std::size_t end = at_;
    char c = 0;
    if (!take(c))
      return fail(quote_position, "the quote of " + name + " is never closed; add the closing quote");
    if (end - begin == kMaxText) {
      return fail(quote_position, "the value of " + name +
                                      " has more than 253 characters, NCCL's limit; shorten it, or "
                                      "add the closing quote if it is missing");
    }
    if (c != quote) continue;
    token.value = cut(begin, end);
    if (take(last)) return true;
    return fail(here(), "the file ends inside <" + shownWord(tag_name_) + ">; close the tag with '>'");
  }
}

bool TagScanner::skipSpace(char& c) {
  c = ' ';
  while (c == ' ' || isLineEnd(c)) {
    if (!take(c)) return false;
  }
  return true;
}

// `start` and `next` were already read as the name of a tag. They may contain the end of the comment:
// "<!---->".
bool TagScanner::skipComment(std::string_view start, char next, XmlPosition begin) {
  char window[3] = {'.', '.', '.'};
  const auto append = [&window](char c) { window[0] = window[1], window[1] = window[2], window[2] = c; };
  for (const char c : start) append(c);
  append(next);
  while (std::string_view(window, 3) != "-->") {
    char c = 0;
    if (!take(c)) return fail(begin, "this comment is never closed; end it with -->");
    append(c);
  }
  return true;
}

bool TagScanner::takeAttributes(ScannedTag& tag, char& last) {
  ScannedAttribute attribute;
  while (last == ' ') {
    if (!takeToken(Role::kAttribute, attribute, last)) return false;
    if (tag.attributes.size() < kXmlMaxAttributes) {
      tag.attributes.push_back(attribute);
    } else if (tag.extra_attribute.line == 0) {
      tag.extra_attribute = attribute.position;
    }
  }
  return true;
}

bool TagScanner::takeOpening(ScannedTag& tag, char last) {
  tag.kind = XmlNodeKind::kOpen;
  if (!takeAttributes(tag, last)) return false;
  if (last == '/') {
    tag.kind = XmlNodeKind::kSingle;
    ScannedAttribute ignored;
    if (!takeToken(Role::kAfterSlash, ignored, last)) return false;
    if (!ignored.name.empty()) tag.text_after_slash = ignored.position;
    if (last == '>') return true;
    XmlPosition at = here();
    at.column -= at.column > 1 ? 1 : 0;  // the column of `last`, unless `last` ended the line
    return fail(at,
                shownChar(last) + " after the '/' of <" + shownWord(tag.name) + ">; end the tag with '/>'");
  }
  return last == '>' || failUnexpected(tag.position, last, tag.name);
}

bool TagScanner::takeClosing(ScannedTag& tag) {
  tag.kind = XmlNodeKind::kClose;
  ScannedAttribute name;
  char last = 0;
  if (!takeToken(Role::kClosingName, name, last)) return false;
  tag.name = name.name;
  if (last == '>') return true;
  return fail(tag.position, shownChar(last) + " inside the closing tag </" + shownWord(tag.name) +
                                ">; write </" + shownWord(tag.name) + "> without anything else");
}

bool TagScanner::scan(ScannedTag& tag) {
  for (;;) {
    tag.kind = XmlNodeKind::kNone;
    tag.attributes.clear();
    tag.extra_attribute = tag.text_after_slash = {};
    tag_name_ = {};
    char c = 0;
    if (!skipSpace(c)) return true;
    tag.position = here();
    tag.position.column--;
    if (c != '<') return failText(tag.position, c);
    ScannedAttribute name;
    if (!takeToken(Role::kTagName, name, c)) return false;
    tag.name = tag_name_ = name.name;
    if (tag.name.starts_with("!--")) {
      if (!skipComment(tag.name.substr(3), c, tag.position)) return false;
      continue;
    }
    if (tag.name.empty() && c == '/') return takeClosing(tag);
    return takeOpening(tag, c);
  }
}

bool TagScanner::fail(XmlPosition position, std::string text) {
  error_position_ = position;
  error_ = std::move(text);
  return false;
}

// `c`, the last character read, is at a place where NCCL expects a space, '/' or '>'.
bool TagScanner::failUnexpected(XmlPosition position, char c, std::string_view name) {
  const std::string tag = "<" + shownWord(name) + ">";
  if (name == "?xml") {
    return fail(position, "NCCL's parser does not know the <?xml ...?> header; remove it");
  }
  if (name.starts_with("!")) {
    return fail(position, "NCCL's parser knows no <!...> but <!-- comments -->; remove " + tag);
  }
  if (isLineEnd(c)) {
    return fail(position, "line break inside " + tag +
                              ": NCCL's parser wants each tag on one line; put its attributes "
                              "on one line, separated by one space");
  }
  if (c == '\t') {
    return fail(position,
                "tab inside " + tag + ": NCCL's parser wants one space between attributes; replace it");
  }
  XmlPosition at = here();
  at.column--;
  return fail(at, shownChar(c) + " inside " + tag +
                      " where NCCL's parser wants a space, '>' or '/>'; separate attributes by "
                      "one space and end the tag with '>' or '/>'");
}

bool TagScanner::failText(XmlPosition position, char c) {
  if (at_ == 1 && text_.starts_with(kByteOrderMark)) {
    return fail(position, "byte order mark before the first tag; save the file as plain UTF-8 or ASCII");
  }
  if (c == '\t') {
    return fail(position,
                "tab between tags: NCCL's parser skips only spaces and line ends there; indent with spaces");
  }
  if (c != '>' && text_.substr(0, at_).find('<') == std::string_view::npos) {
    return fail(position, "no topology file: it begins with " + shownChar(c) +
                              ", not with a tag (a log of NCCL: `railwise doctor --log FILE`)");
  }
  const std::string found =
      c == '>' ? "'>' without a tag" : "text between tags, beginning with " + shownChar(c);
  return fail(position,
              found + ": NCCL's parser takes only tags and comments; remove it or make it a comment");
}

// Reports a '=' at a place where no value is allowed.
bool TagScanner::failAssignment(XmlPosition position, Role role, std::string_view name) {
  if (role == Role::kTagName && name.starts_with("!--")) {
    return fail(position,
                "'=' before the first space of a comment: NCCL's parser refuses it; put a space after <!--");
  }
  if (role == Role::kTagName) {
    const bool tab = name.find('\t') != std::string_view::npos;
    return fail(position, tab ? "tab inside <" + shownWord(name.substr(0, name.find('\t'))) +
                                    ">: NCCL's parser wants a space there; replace it"
                              : "'=' in the name of a tag; write <name attribute=\"value\">");
  }
  if (role == Role::kClosingName) return fail(position, "'=' in a closing tag; write </name>");
  return fail(position,
              "an attribute after the '/' of <" + shownWord(tag_name_) + ">; end the tag with '/>'");
}

bool TagScanner::failLength(XmlPosition position, Role role, std::string_view name) {
  if (role == Role::kTagName && name.starts_with("!--")) {
    return fail(
        position,
        "a comment that begins with more than 250 characters without a space: NCCL's parser takes them "
        "for a tag's name and refuses it; put a space after <!--");
  }
  return fail(
      position,
      "a name of more than 253 characters, NCCL's limit; shorten it, or look for a missing quote, space "
      "or '>' before it");
}

}  // namespace railwise::topo
