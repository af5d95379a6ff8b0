// The upper half of the XML reader: builds the tree of nodes as NCCL's xmlLoadSub and its handlers do.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text/text_layout.h"
#include "topo/document/xml.h"

namespace railwise::topo {
namespace {

// The lower half of the XML reader. It cuts a text into tags, character by character, as NCCL's xmlGetNode
// does. The names and values of a tag point into the text. Used by xml_reader.cc only; one thread.

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
      return formatText("byte 0x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

// Makes a word from the file fit for a message: short and without control characters.
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

// No topology file comes close to this size; the limit ends the reading of files such as /dev/zero.
constexpr std::size_t kMaxFileBytes = 64U << 20U;
constexpr int kNcclVersion = 1;

// Does NCCL's handler for `parent` accept the child `tag`? `parent` is empty at the top level.
bool handlesGraphs(std::string_view parent, std::string_view tag) {
  if (parent.empty()) return tag == "graphs";
  if (parent == "graphs") return tag == "graph";
  if (parent == "graph") return tag == "channel";
  return parent == "channel" && (tag == "net" || tag == "gpu");
}

bool handlesTopology(std::string_view parent, std::string_view tag, int version) {
  if (parent.empty()) return tag == "system";
  if (parent == "system") return tag == "cpu";
  if (parent == "cpu") return tag == "pci" || tag == "nic";
  if (parent == "pci") return tag == "pci" || tag == "gpu" || tag == "nic" || tag == "pcilink";
  if (parent == "nic") return tag == "net";
  if (parent != "gpu") return false;
  return tag == "nvlink" || tag == "c2c" || (tag == "xgmi" && version == kRcclVersion);
}

std::string tagText(std::string_view name) { return "<" + shownWord(name) + ">"; }

class TreeReader {
 public:
  TreeReader(std::string_view text, std::string_view file, const XmlReadOptions& options,
             std::vector<XmlRemark>* remarks)
      : scanner_(text), options_(options), remarks_(remarks) {
    document_.file = file;
  }
  Outcome<XmlDocument> read();

 private:
  bool readAll();
  bool readNext(bool& done);
  bool finish(bool& done);
  bool enter();
  bool close();
  bool skip();
  bool checkVersion(const XmlNode& root);
  std::string_view rootName() const { return options_.form == XmlForm::kGraphs ? "graphs" : "system"; }
  bool checkRoom();
  void remarkTag();
  void remark(XmlRemark::Kind kind, XmlPosition position, std::string text);
  bool fail(XmlPosition position, std::string text);

  TagScanner scanner_;
  XmlReadOptions options_;
  std::vector<XmlRemark>* remarks_;
  XmlDocument document_;
  ScannedTag tag_;
  XmlNode* head_ = nullptr;  // the innermost open element
  int depth_ = 0;
  int skipped_depth_ = 0;  // number of open elements in the skipped element, including itself
  std::string_view skipped_name_;
  XmlPosition skipped_position_;
  XmlPosition graphs_;
  std::string error_;
};

bool TreeReader::fail(XmlPosition position, std::string text) {
  error_ = where(document_, position) + ": " + std::move(text);
  return false;
}

void TreeReader::remark(XmlRemark::Kind kind, XmlPosition position, std::string text) {
  if (remarks_ != nullptr) remarks_->push_back({position, std::move(text), kind});
}

Outcome<XmlDocument> TreeReader::read() {
  if (!readAll()) return Error{std::move(error_)};
  return std::move(document_);
}

bool TreeReader::readAll() {
  bool done = false;
  while (!done) {
    if (!readNext(done)) return false;
  }
  if (document_.find(rootName()) != nullptr) return true;
  if (options_.form == XmlForm::kGraphs) {
    return fail({1, 1},
                "the file has no <graphs>; give a graph file, such as NCCL_GRAPH_DUMP_FILE and railwise topo "
                "graphs --format xml write");
  }
  if (graphs_.line > 0) {
    return fail(graphs_,
                "this is a graph file (<graphs>, for NCCL_GRAPH_FILE) and has no <system>; give a topology "
                "file, such as NCCL_TOPO_DUMP_FILE writes");
  }
  return fail(
      {1, 1},
      "the file has no <system>, so NCCL would ignore it without a word; give a topology file, such as "
      "NCCL_TOPO_DUMP_FILE writes");
}

bool TreeReader::readNext(bool& done) {
  // NCCL asks for room for the next element before it reads on, even if only closing tags follow.
  if (options_.max_nodes > 0 && static_cast<int>(document_.order().size()) >= options_.max_nodes) {
    return fail(document_.order().back()->position, "this is element " + std::to_string(options_.max_nodes) +
                                                        "; NCCL's parser takes " +
                                                        std::to_string(options_.max_nodes - 1) +
                                                        " at most; remove devices that NCCL does not use "
                                                        "(`railwise topo show --any-size FILE` reads more)");
  }
  if (!scanner_.scan(tag_)) return fail(scanner_.errorPosition(), scanner_.error());
  remarkTag();
  if (tag_.kind == XmlNodeKind::kNone) return finish(done);
  if (skipped_depth_ > 0) {
    // Inside a skipped element NCCL neither compares the names of closing tags nor checks their nesting.
    if (tag_.kind == XmlNodeKind::kOpen) skipped_depth_++;
    if (tag_.kind == XmlNodeKind::kClose) skipped_depth_--;
    return true;
  }
  if (head_ != nullptr && tag_.kind == XmlNodeKind::kClose) return close();
  const std::string_view parent = head_ != nullptr ? std::string_view(head_->name) : std::string_view();
  const bool known = options_.form == XmlForm::kGraphs
                         ? handlesGraphs(parent, tag_.name)
                         : handlesTopology(parent, tag_.name, document_.version);
  return known ? enter() : skip();
}

bool TreeReader::finish(bool& done) {
  done = true;
  if (skipped_depth_ > 0 && skipped_name_ == "?xml") {
    return fail(skipped_position_, "NCCL's parser does not know the <?xml ...?> header; remove it");
  }
  if (skipped_depth_ > 0) {
    return fail(skipped_position_,
                tagText(skipped_name_) + " is never closed; add its closing tag, or end it with '/>'");
  }
  if (head_ == nullptr) return true;
  return fail(head_->position,
              tagText(head_->name) + " is never closed; add </" + head_->name + ">, or end it with '/>'");
}

bool TreeReader::close() {
  if (tag_.name != head_->name) {
    return fail(tag_.position, "</" + shownWord(tag_.name) + "> closes " + tagText(head_->name) +
                                   " of line " + std::to_string(head_->position.line) + "; close </" +
                                   head_->name + "> first");
  }
  head_ = head_->parent;
  depth_--;
  return true;
}

bool TreeReader::checkRoom() {
  if (head_ != nullptr && head_->children.size() >= kXmlMaxChildren) {
    return fail(tag_.position, tagText(head_->name) + " has more than " + std::to_string(kXmlMaxChildren) +
                                   " children, NCCL's limit; remove some");
  }
  if (depth_ < kXmlMaxDepth) return true;
  return fail(tag_.position,
              "elements are nested more than " + std::to_string(kXmlMaxDepth) + " deep; this is no machine");
}

bool TreeReader::enter() {
  if (!checkRoom()) return false;
  XmlNode* node = document_.add(head_, tag_.name);
  node->kind = tag_.kind;
  node->position = tag_.position;
  node->attributes.reserve(tag_.attributes.size());
  for (const ScannedAttribute& attribute : tag_.attributes) {
    node->attributes.push_back(
        {std::string(attribute.name), std::string(attribute.value), attribute.position});
  }
  if (head_ == nullptr && !checkVersion(*node)) return false;
  if (tag_.kind != XmlNodeKind::kSingle) {
    head_ = node;
    depth_++;
  }
  return true;
}

bool TreeReader::skip() {
  const std::string inside =
      head_ != nullptr ? " inside " + tagText(head_->name) : " outside of " + tagText(rootName());
  if (head_ == nullptr && tag_.name == "graphs" && graphs_.line == 0) graphs_ = tag_.position;
  remark(XmlRemark::Kind::kSkippedElement, tag_.position,
         tagText(tag_.name) + inside + " is unknown to NCCL, which skips it with all below it");
  if (tag_.kind == XmlNodeKind::kSingle) return true;
  skipped_depth_ = 1;
  skipped_name_ = tag_.name;
  skipped_position_ = tag_.position;
  return true;
}

bool TreeReader::checkVersion(const XmlNode& root) {
  const std::string tag = tagText(rootName());
  if (tag_.kind == XmlNodeKind::kClose)
    return fail(tag_.position, "</" + std::string(rootName()) + "> without " + tag + "; remove it");
  const std::string* text = root.find("version");
  if (text == nullptr)
    return fail(tag_.position,
                tag + " has no version; write <" + std::string(rootName()) + " version=\"1\">");
  const int version = static_cast<int>(std::strtol(text->c_str(), nullptr, 0));
  const bool rccl = options_.form == XmlForm::kTopology && version == kRcclVersion;
  if (version != kNcclVersion && !rccl) {
    const char* const takes = options_.form == XmlForm::kTopology ? "NCCL takes version 1 only (RCCL 2)"
                                                                  : "NCCL takes version 1 only";
    return fail(tag_.position,
                tag + " has version \"" + shownWord(*text) + "\"; " + takes + ": write version=\"1\"");
  }
  if (document_.order().size() == 1) {
    document_.version = version;
    return true;
  }
  remark(XmlRemark::Kind::kExtraSystem, tag_.position, "a second " + tag + ": NCCL uses the first only");
  return version == document_.version ||
         fail(tag_.position, "a second " + tag + " of another version; keep one " + tag);
}

void TreeReader::remarkTag() {
  if (tag_.kind == XmlNodeKind::kNone || skipped_depth_ > 0) return;
  if (tag_.extra_attribute.line > 0) {
    remark(XmlRemark::Kind::kExtraAttributes, tag_.extra_attribute,
           tagText(tag_.name) + " has more than " + std::to_string(kXmlMaxAttributes) +
               " attributes; NCCL ignores the rest");
  }
  if (tag_.text_after_slash.line > 0) {
    remark(XmlRemark::Kind::kTextAfterSlash, tag_.text_after_slash,
           "text between the '/' and the '>' of " + tagText(tag_.name) + "; NCCL ignores it");
  }
}

}  // namespace

Outcome<XmlDocument> parseXml(std::string_view text, std::string_view file, const XmlReadOptions& options,
                              std::vector<XmlRemark>* remarks) {
  return TreeReader(text, file, options, remarks).read();
}

std::pair<std::string, std::string> splitAdvice(const std::string& error) {
  const std::size_t split = error.rfind("; ");
  if (split == std::string::npos) return {error, ""};
  return {error.substr(0, split), error.substr(split + 2)};
}

Outcome<XmlDocument> readXmlFile(const std::string& path, const XmlReadOptions& options,
                                 std::vector<XmlRemark>* remarks) {
  auto text = wholeFile(path, kMaxFileBytes + 1);
  if (text.ok() && text->size() > kMaxFileBytes) text = Error{std::strerror(EFBIG)};
  if (!text.ok())
    return Error{path + ": cannot read it: " + text.error() + "; check the path and the permissions"};
  return parseXml(*text, path, options, remarks);
}

}  // namespace railwise::topo
