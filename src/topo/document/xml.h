// NCCL's topology XML: the document, the reader and the writer.
//
// The reader accepts and refuses exactly what the parser of NCCL 2.30.7 does (its src/graph/xml.cc:
// xmlGetNode, xmlGetToken, xmlLoadSub). That is less than XML: no <?xml?> header, no text, no tab or newline
// inside a tag, no entities. The reader also accepts RCCL's version 2 files (<xgmi>). It keeps the line and
// column of every node and attribute, for messages and for lint. One thread at a time per document.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/outcome.h"

namespace railwise::topo {

struct XmlPosition {
  int line = 0;    // 1-based; 0: Railwise made this, it was not read from a file
  int column = 0;  // 1-based, in bytes
};

struct XmlAttribute {
  std::string name;
  std::string value;
  XmlPosition position;
};

// The form of a node's tag. NCCL also compares it when it fuses the trees of several ranks.
enum class XmlNodeKind : uint8_t { kNone, kOpen, kClose, kSingle };

struct XmlNode {
  std::string name;
  XmlNodeKind kind = XmlNodeKind::kNone;
  std::vector<XmlAttribute> attributes;  // in file order; find() returns the first match
  std::vector<XmlNode*> children;
  XmlNode* parent = nullptr;
  XmlPosition position;

  const std::string* find(std::string_view attribute) const;  // null: the node has no such attribute
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  std::string get(std::string_view attribute, std::string_view otherwise = "") const;
  void set(std::string_view attribute, std::string_view value);  // adds or overwrites the attribute
  // Adds the attribute, never overwrites it.
  void setIfUnset(std::string_view attribute, std::string_view value);
  void unset(std::string_view attribute);
  XmlNode* child(std::string_view child_name) const;  // the first child of that name, or null
  XmlNode* child(std::string_view child_name, std::string_view attribute, std::string_view value) const;
};

// The number that an attribute is, as NCCL reads it (strtol, which finds the base).
int intOf(const XmlNode& node, std::string_view attribute, int otherwise);
// host_hash of the <cpu> that the node is, or that is above the node; "" without one.
std::string hostOf(const XmlNode& node);

// A tree of nodes. A node never moves in memory. order() lists the nodes in the order of their creation, the
// order in which NCCL searches them.
class XmlDocument {
 public:
  XmlDocument() = default;
  XmlDocument(XmlDocument&&) = default;
  XmlDocument& operator=(XmlDocument&&) = default;
  XmlDocument(const XmlDocument& other);

  // The first <system> element, or null.
  XmlNode* system() const { return find("system"); }
  // The first <graphs> element, or null.
  XmlNode* graphs() const { return find("graphs"); }
  XmlNode* find(std::string_view name) const;
  XmlNode* find(std::string_view name, std::string_view attribute, std::string_view value) const;
  const std::vector<XmlNode*>& order() const { return order_; }

  // Appends a node to the children of `parent`. If `parent` is null, the node is a root, or the caller
  // attaches it later by setting its parent and the parent's children.
  XmlNode* add(XmlNode* parent, std::string_view name);
  // Appends a deep copy of `tree` to the children of `parent`. If `parent` is null, the copy is a root.
  XmlNode* copy(XmlNode* parent, const XmlNode& tree);
  // Removes the node from its parent's children. The node stays in order(), where find() still finds it, as
  // in NCCL.
  static void detach(XmlNode* node);

  // The file that was read, for messages. Empty: the document was not read from a file.
  std::string file;
  // The version in <system version>: 1 is NCCL, kRcclVersion is RCCL.
  int version = 1;

 private:
  std::deque<XmlNode> nodes_;
  std::vector<XmlNode*> order_;
};

inline constexpr int kRcclVersion = 2;
// NCCL_TOPO_XML_MAX_NODES. NCCL refuses a file that reaches this number, so 255 nodes fit.
inline constexpr int kXmlMaxNodes = 256;
inline constexpr int kXmlMaxChildren = 640;   // MAX_SUBS
inline constexpr int kXmlMaxAttributes = 16;  // MAX_ATTR_COUNT
// MAX_STR_LEN - 1: a name or value, including the character that ends it.
inline constexpr int kXmlMaxText = 254;
// Railwise's own limit: with max_nodes 0 nothing else bounds the nesting.
inline constexpr int kXmlMaxDepth = 1024;

// NCCL_GRAPH_XML_MAX_NODES: the limit for a graph file.
inline constexpr int kXmlMaxGraphNodes = 65536;

// What a file describes: a machine (<system>), or the result of NCCL's search (<graphs>: NCCL_GRAPH_FILE).
enum class XmlForm : uint8_t { kTopology, kGraphs };

struct XmlReadOptions {
  // NCCL refuses a file with this many nodes or more. 0: no limit, for machines that are combined from
  // several files.
  int max_nodes = kXmlMaxNodes;
  XmlForm form = XmlForm::kTopology;
};

// Something that the reader skipped without refusing the file. Lint reports it.
struct XmlRemark {
  enum class Kind : uint8_t {
    kSkippedElement,   // a tag that the handler of its parent does not know; everything below the tag is
                       // skipped too
    kExtraAttributes,  // attributes beyond the sixteenth
    kTextAfterSlash,   // <pci .../text>
    kExtraSystem,      // a second <system> or <graphs>
  };
  XmlPosition position;
  std::string text;
  Kind kind = Kind::kSkippedElement;
};

// Reads `text`; `file` is only for messages. An error has the form "FILE:LINE:COLUMN: what; what to do".
Outcome<XmlDocument> parseXml(std::string_view text, std::string_view file,
                              const XmlReadOptions& options = {}, std::vector<XmlRemark>* remarks = nullptr);
// Of such an error what is wrong, and what to do ("" where it does not say).
std::pair<std::string, std::string> splitAdvice(const std::string& error);
// Reads a file. An error names the file and, if the file cannot be opened, the reason.
Outcome<XmlDocument> readXmlFile(const std::string& path, const XmlReadOptions& options = {},
                                 std::vector<XmlRemark>* remarks = nullptr);

// Does the document have a GPU of NVIDIA's? NCCL refuses such a document with RCCL's version.
bool hasNvidiaGpu(const XmlDocument& document);

// Writes the document as NCCL does (ncclTopoDumpXmlToFile): two spaces per level, one node per line.
std::string writeXml(const XmlDocument& document);

// Writes "FILE:LINE:COLUMN" for messages, without the parts that are not known.
std::string where(const XmlDocument& document, const XmlPosition& position);

}  // namespace railwise::topo
