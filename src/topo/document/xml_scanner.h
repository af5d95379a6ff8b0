// The lower half of the XML reader: cuts a text into tags as NCCL's xmlGetNode does, character by character.
// Its names and values point into the text. Used by xml_reader.cc only; one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/document/xml.h"

namespace railwise::topo {

// A word of the text as a message can show it: short, without control characters.
std::string shownWord(std::string_view word);

struct ScannedAttribute {
  std::string_view name;
  std::string_view value;
  XmlPosition position;
};

struct ScannedTag {
  XmlNodeKind kind = XmlNodeKind::kNone;  // kNone: the end of the text
  std::string_view name;
  XmlPosition position;                      // of the '<'
  std::vector<ScannedAttribute> attributes;  // at most kXmlMaxAttributes
  XmlPosition extra_attribute;               // of the first one too many; line 0: none
  XmlPosition text_after_slash;              // line 0: none
};

class TagScanner {
 public:
  explicit TagScanner(std::string_view text) : text_(text) {}

  // Reads the next tag that is not a comment. False: NCCL refuses the text here, for error() at
  // errorPosition().
  [[nodiscard]] bool scan(ScannedTag& tag);

  XmlPosition here() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }
  const std::string& error() const { return error_; }
  XmlPosition errorPosition() const { return error_position_; }

 private:
  // What a token is for: only an attribute may have a value, and the messages differ.
  enum class Role { kTagName, kAttribute, kClosingName, kAfterSlash };

  bool take(char& c);
  bool takeToken(Role role, ScannedAttribute& token, char& last);
  bool takeValue(ScannedAttribute& token, char& last);
  bool takeAttributes(ScannedTag& tag, char& last);
  bool takeOpening(ScannedTag& tag, char last);
  bool takeClosing(ScannedTag& tag);
  bool skipSpace(char& c);
  bool skipComment(std::string_view start, char next, XmlPosition begin);

  std::string_view cut(std::size_t begin, std::size_t end) const;
  bool fail(XmlPosition position, std::string text);
  bool failUnexpected(XmlPosition position, char c, std::string_view name);
  bool failText(XmlPosition position, char c);
  bool failAssignment(XmlPosition position, Role role, std::string_view name);
  bool failLength(XmlPosition position, Role role, std::string_view name);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
  std::string_view tag_name_;  // of the tag in hand, for messages
  std::string error_;
  XmlPosition error_position_;
};

}  // namespace railwise::topo
