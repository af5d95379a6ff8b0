// NCCL's topology XML: the document, the reader and the writer.
//
// The reader accepts and refuses exactly what NCCL 2.30.7's parser does (src/graph/xml.cc there: xmlGetNode,
// xmlGetToken, xmlLoadSub), which is less than XML: no <?xml?> header, no text, no tab or newline inside a
// tag, no entities. Besides it reads RCCL's version 2 files (<xgmi>). It keeps the line and column of
// everything, for the messages and for lint. One thread at a time per document.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "topo/outcome.h"

namespace railwise::topo {

struct XmlPosition {
  int line = 0;    // 1-based; 0: made by us, not read
  int column = 0;  // 1-based, in bytes
};

struct XmlAttribute {
  std::string name;
  std::string value;
  XmlPosition position;
};

// NCCL compares a node's kind too when it fuses the trees of several ranks.
enum class XmlNodeKind : uint8_t { kNone, kOpen, kClose, kSingle };

struct XmlNode {
  std::string name;
  XmlNodeKind kind = XmlNodeKind::kNone;
  std::vector<XmlAttribute> attributes;  // in file order; look-ups take the first match
  std::vector<XmlNode*> children;
  XmlNode* parent = nullptr;
  XmlPosition position;

  const std::string* find(std::string_view attribute) const;  // null: not there
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  std::string get(std::string_view attribute, std::string_view otherwise = "") const;
  void set(std::string_view attribute, std::string_view value);         // adds or overwrites
  void setIfUnset(std::string_view attribute, std::string_view value);  // adds, never overwrites
  void unset(std::string_view attribute);
  XmlNode* child(std::string_view child_name) const;  // the first of that name, or null
  XmlNode* child(std::string_view child_name, std::string_view attribute, std::string_view value) const;
};

// A tree of nodes. Nodes never move; order() is their order of creation, in which NCCL searches.
class XmlDocument {
 public:
  XmlDocument() = default;
  XmlDocument(XmlDocument&&) = default;
  XmlDocument& operator=(XmlDocument&&) = default;
  XmlDocument(const XmlDocument& other);

  // The first <system>, or null.
  XmlNode* system() const { return find("system"); }
  XmlNode* find(std::string_view name) const;
  XmlNode* find(std::string_view name, std::string_view attribute, std::string_view value) const;
  const std::vector<XmlNode*>& order() const { return order_; }

  // Appends to parent's children; parent null: a root, or a node to be hung up later (then set parent and
  // children).
  XmlNode* add(XmlNode* parent, std::string_view name);
  // A deep copy of `tree` below `parent` (null: as a root).
  XmlNode* copy(XmlNode* parent, const XmlNode& tree);
  // Takes the node out of its parent's children. It stays in order(), as in NCCL, where look-ups still find
  // it.
  static void detach(XmlNode* node);

  // The file that was read, for messages; empty: none.
  std::string file;
  // <system version>: 1 NCCL, 2 RCCL.
  int version = 1;

 private:
  std::deque<XmlNode> nodes_;
  std::vector<XmlNode*> order_;
};

inline constexpr int kXmlMaxNodes = 256;  // NCCL_TOPO_XML_MAX_NODES; a file that fills it is refused: 255 fit
inline constexpr int kXmlMaxChildren = 640;   // MAX_SUBS
inline constexpr int kXmlMaxAttributes = 16;  // MAX_ATTR_COUNT
inline constexpr int kXmlMaxText = 254;    // MAX_STR_LEN - 1: a name or value with the character that ends it
inline constexpr int kXmlMaxDepth = 1024;  // ours: with max_nodes 0 nothing else bounds the nesting

struct XmlReadOptions {
  // NCCL refuses a file that reaches it; 0: no limit (for machines that are put together of several files).
  int max_nodes = kXmlMaxNodes;
};

// What the reader skipped without refusing the file, for lint.
struct XmlRemark {
  enum class Kind : uint8_t {
    kSkippedElement,   // a tag that its parent's handler does not know, with all below it
    kExtraAttributes,  // beyond the sixteenth
    kTextAfterSlash,   // <pci .../text>
    kExtraSystem,      // a second <system>
  };
  XmlPosition position;
  std::string text;
  Kind kind = Kind::kSkippedElement;
};

// Reads `text`; `file` only names it in messages. The error reads "FILE:LINE:COLUMN: what; what to do".
Outcome<XmlDocument> parseXml(std::string_view text, std::string_view file,
                              const XmlReadOptions& options = {}, std::vector<XmlRemark>* remarks = nullptr);
// Reads a file. An error names the file and, when it cannot be opened, why.
Outcome<XmlDocument> readXmlFile(const std::string& path, const XmlReadOptions& options = {},
                                 std::vector<XmlRemark>* remarks = nullptr);

// The document as NCCL writes it (ncclTopoDumpXmlToFile): two spaces per level, one node per line.
std::string writeXml(const XmlDocument& document);

// "FILE:LINE:COLUMN", or what of it is known, for messages.
std::string where(const XmlDocument& document, const XmlPosition& position);

}  // namespace railwise::topo
