// The lower half of the XML reader. It cuts a text into tags, character by character, as NCCL's xmlGetNode
// does. The names and values of a tag point into the text. Used by xml_reader.cc only; one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/document/xml.h"

namespace railwise::topo {

// Makes a word from the file fit for a message: short and without control characters.
std::string shownWord(std::string_view word);

struct ScannedAttribute {
  std::string_view name;
  std::string_view value;
  XmlPosition position;
};

struct ScannedTag {
  XmlNodeKind kind = XmlNodeKind::kNone;  // kNone: the end of the text was reached
  std::string_view name;
  XmlPosition position;                      // position of the '<'
  std::vector<ScannedAttribute> attributes;  // at most kXmlMaxAttributes
  XmlPosition extra_attribute;   // position of the first attribute beyond the limit; line 0: there is none
  XmlPosition text_after_slash;  // position of text between '/' and '>'; line 0: there is none
};

class TagScanner {
 public:
  explicit TagScanner(std::string_view text) : text_(text) {}

  // Reads the next tag, skipping comments. False: NCCL refuses the text, for the reason error() at
  // errorPosition().
  [[nodiscard]] bool scan(ScannedTag& tag);

  XmlPosition here() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }
  const std::string& error() const { return error_; }
  XmlPosition errorPosition() const { return error_position_; }

 private:
  // What a token is used as. Only an attribute may have a value, and each role has its own error messages.
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
  std::string_view tag_name_;  // name of the tag that is being read, for messages
  std::string error_;
  XmlPosition error_position_;
};

}  // namespace railwise::topo
