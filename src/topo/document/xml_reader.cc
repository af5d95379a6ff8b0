// The upper half of the XML reader: builds the tree of nodes as NCCL's xmlLoadSub and its handlers do.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/whole_file.h"
#include "topo/document/xml.h"
#include "topo/document/xml_scanner.h"

namespace railwise::topo {
namespace {

// No topology file comes close to this size; the limit ends the reading of files such as /dev/zero.
constexpr std::size_t kMaxFileBytes = 64U << 20U;
constexpr int kNcclVersion = 1;
constexpr int kRcclVersion = 2;

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
                                                        "(railwise --any-size reads more)");
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
