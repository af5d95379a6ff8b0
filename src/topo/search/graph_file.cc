#include "topo/search/graph_file.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdlib>
#include <utility>

#include "base/text/text_layout.h"
#include "topo/graph/constants.h"
#include "topo/search/channel_graph.h"

namespace railwise::topo {
namespace {

constexpr int kHostShift = 56;  // an id: the host, then the number of the device

// The path types that a graph file has names for (kvDictLinkType). NCCL forgot C2C.
constexpr std::array kNamedTypes = {PathType::kLoc, PathType::kNvl, PathType::kNvb,
                                    PathType::kPix, PathType::kPxb, PathType::kP2c,
                                    PathType::kPxn, PathType::kPhb, PathType::kSys};

int64_t deviceId(const Node& gpu) {
  return static_cast<int64_t>((static_cast<uint64_t>(gpu.host) << kHostShift) +
                              static_cast<uint64_t>(gpu.dev));
}

// Reads one <graph> element.
class GraphReader {
 public:
  GraphReader(const XmlDocument& document, const Graph& graph, bool inter, Algorithm algorithm)
      : document_(document), graph_(graph), inter_(inter), algorithm_(algorithm) {}

  bool read(const XmlNode& element, ChannelGraph& found) {
    int pattern = 0;
    int same = 0;
    int channels = 0;
    if (!number(element, "crossnic", found.cross_nic) || !number(element, "pattern", pattern) ||
        !number(element, "nchannels", channels) || !real(element, "speedintra", found.bandwidth_intra) ||
        !real(element, "speedinter", found.bandwidth_inter) ||
        !type(element, "typeintra", found.type_intra) || !type(element, "typeinter", found.type_inter) ||
        !number(element, "samechannels", same))
      return false;
    if (pattern < static_cast<int>(Pattern::kBalancedTree) ||
        pattern > static_cast<int>(Pattern::kCollNetDirect))
      return fail(element, "has pattern=\"" + element.get("pattern") +
                               "\"; write 1 (balanced tree), 2 (split tree), 3 (tree), 4 (ring), 5 (NVLS) or "
                               "6 (CollNet direct)");
    found.algorithm = algorithm_;
    found.pattern = static_cast<Pattern>(pattern);
    found.same_channels = same != 0;
    found.latency_inter = std::strtof(element.get("latencyinter", "0").c_str(), nullptr);
    if (channels < 0 || channels > kMaxChannels)
      return fail(element, "has nchannels=\"" + element.get("nchannels") + "\"; NCCL has room for 0 to " +
                               std::to_string(kMaxChannels));
    if (channels != static_cast<int>(element.children.size()))
      return fail(element, "says nchannels=\"" + element.get("nchannels") + "\" and has " +
                               std::to_string(element.children.size()) +
                               " <channel> elements; NCCL would use rank 0 for what is missing: make both "
                               "numbers equal");
    found.channels.clear();
    for (const XmlNode* child : element.children)
      if (!readChannel(*child, found)) return false;
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  bool fail(const XmlNode& element, const std::string& what) {
    error_ = where(document_, element.position) + ": <" + element.name + "> " + what;
    return false;
  }

  const std::string* attribute(const XmlNode& element, const char* name) {
    const std::string* const text = element.find(name);
    if (text == nullptr) fail(element, "has no " + std::string(name) + ", which NCCL needs; add it");
    return text;
  }

  bool number(const XmlNode& element, const char* name, int& value) {
    const std::string* const text = attribute(element, name);
    if (text == nullptr) return false;
    char* end = nullptr;
    value = static_cast<int>(std::strtol(text->c_str(), &end, 0));
    return (end != text->c_str() && *end == 0) || failNumber(element, name, *text);
  }

  bool real(const XmlNode& element, const char* name, float& value) {
    const std::string* const text = attribute(element, name);
    if (text == nullptr) return false;
    char* end = nullptr;
    value = std::strtof(text->c_str(), &end);
    return (end != text->c_str() && *end == 0 && value >= 0) || failNumber(element, name, *text);
  }

  bool failNumber(const XmlNode& element, const char* name, const std::string& text) {
    return fail(element, "has " + std::string(name) + "=\"" + text + "\"; write a number");
  }

  bool type(const XmlNode& element, const char* name, PathType& value) {
    const std::string* const text = attribute(element, name);
    if (text == nullptr) return false;
    for (const PathType known : kNamedTypes) {
      if (*text != pathTypeName(known)) continue;
      value = known;
      return true;
    }
    return fail(element,
                "has " + std::string(name) + "=\"" + *text +
                    "\", which NCCL would take for LOC; write LOC, NVL, NVB, PIX, PXB, P2C, PXN, PHB or SYS");
  }

  bool readChannel(const XmlNode& element, ChannelGraph& found) {
    Channel channel;
    std::vector<int> nets;
    for (const XmlNode* child : element.children) {
      const std::string* const text = attribute(*child, "dev");
      if (text == nullptr) return false;
      const auto id = static_cast<int64_t>(std::strtoull(text->c_str(), nullptr, 16));
      if (child->name == "gpu" ? !addRank(*child, id, channel) : !addNet(*child, id, nets)) return false;
    }
    const auto gpus = static_cast<std::size_t>(graph_.count(NodeType::kGpu));
    const std::size_t needed = algorithm_ == Algorithm::kNvls ? 1 : gpus;
    if (channel.ranks.size() != needed)
      return fail(element,
                  "names " + std::to_string(channel.ranks.size()) + " GPUs; NCCL needs " +
                      (algorithm_ == Algorithm::kNvls ? "one, the head" : "all " + std::to_string(gpus)));
    if (inter_ && nets.size() != 2)
      return fail(element, "names " + std::to_string(nets.size()) +
                               " <net> elements; a communicator that uses the network needs two: where the "
                               "channel enters, and where it leaves");
    if (inter_) {
      channel.net_in = nets[0];
      channel.net_out = nets[1];
    }
    if (algorithm_ == Algorithm::kCollNetDirect && found.pattern == Pattern::kCollNetDirect)
      channel.ranks.resize(1);  // the head
    found.channels.push_back(std::move(channel));
    return true;
  }

  bool addRank(const XmlNode& element, int64_t id, Channel& channel) {
    int rank = -1;
    if (element.has("rank")) {
      if (!number(element, "rank", rank)) return false;
      if (graph_.gpuOfRank(rank) < 0)
        return fail(element, "has rank=\"" + element.get("rank") + "\"; the machine has no such rank");
    } else {
      for (const NodeIndex gpu : graph_.of(NodeType::kGpu))
        if (deviceId(graph_.node(gpu)) == id) rank = graph_.node(gpu).rank;
      if (rank < 0)
        return fail(element, "has dev=\"" + element.get("dev") + "\"; the machine has no such GPU");
    }
    if (std::find(channel.ranks.begin(), channel.ranks.end(), rank) != channel.ranks.end())
      return fail(element, "names rank " + std::to_string(rank) + " again; a channel has each rank once");
    channel.ranks.push_back(rank);
    return true;
  }

  bool addNet(const XmlNode& element, int64_t id, std::vector<int>& nets) {
    const int net = graph_.indexOf(NodeType::kNet, id);
    if (net < 0 && inter_)
      return fail(element,
                  "has dev=\"" + element.get("dev") + "\"; the machine has no such NIC (dev is hexadecimal)");
    nets.push_back(net);
    return true;
  }

  const XmlDocument& document_;
  const Graph& graph_;
  const bool inter_;
  const Algorithm algorithm_;
  std::string error_;
};

// Writes the graphs of one communicator.
class GraphWriter {
 public:
  GraphWriter(const Graph& graph, const Settings& settings, bool inter)
      : graph_(graph), ranks_(settings.nccl.has(NcclRule::kGraphFileRanks)), inter_(inter) {
    root_ = document_.add(nullptr, "graphs");
    root_->set("version", "1");
  }

  // Null, or the type that has no name.
  const char* add(const ChannelGraph& channels) {
    for (const PathType type : {channels.type_intra, channels.type_inter})
      if (std::find(kNamedTypes.begin(), kNamedTypes.end(), type) == kNamedTypes.end())
        return pathTypeName(type);
    XmlNode& element = *document_.add(root_, "graph");
    element.set("id", std::to_string(static_cast<int>(channels.algorithm)));
    element.set("pattern", std::to_string(static_cast<int>(channels.pattern)));
    element.set("crossnic", std::to_string(channels.cross_nic));
    element.set("nchannels", std::to_string(channels.channels.size()));
    element.set("speedintra", real(channels.bandwidth_intra));
    element.set("speedinter", real(channels.bandwidth_inter));
    element.set("latencyinter", real(channels.latency_inter));
    element.set("typeintra", pathTypeName(channels.type_intra));
    element.set("typeinter", pathTypeName(channels.type_inter));
    element.set("samechannels", channels.same_channels ? "1" : "0");
    for (const Channel& channel : channels.channels) addChannel(element, channels, channel);
    return nullptr;
  }

  std::string text() const { return writeXml(document_); }

 private:
  static std::string real(float number) { return formatText("%g", static_cast<double>(number)); }
  static std::string hex(int64_t number) { return formatText("%#" PRIx64, static_cast<uint64_t>(number)); }

  void addChannel(XmlNode& element, const ChannelGraph& channels, const Channel& channel) {
    XmlNode& child = *document_.add(&element, "channel");
    if (inter_) addNet(child, channel.net_in);
    for (const int rank : channel.ranks) addGpu(child, rank);
    // NCCL lists all GPUs behind the head of CollNet direct.
    if (channels.pattern == Pattern::kCollNetDirect)
      for (const NodeIndex gpu : graph_.of(NodeType::kGpu))
        if (graph_.node(gpu).rank != channel.ranks[0]) addGpu(child, graph_.node(gpu).rank);
    if (inter_) addNet(child, channel.net_out);
  }

  void addNet(XmlNode& channel, int net) {
    document_.add(&channel, "net")->set("dev", hex(net < 0 ? -1 : graph_.of(NodeType::kNet, net).id));
  }

  void addGpu(XmlNode& channel, int rank) {
    XmlNode& element = *document_.add(&channel, "gpu");
    element.set("dev", hex(deviceId(graph_.of(NodeType::kGpu, graph_.gpuOfRank(rank)))));
    if (ranks_) element.set("rank", std::to_string(rank));
  }

  const Graph& graph_;
  const bool ranks_;  // since NCCL 2.30 a GPU of a graph file has its rank
  const bool inter_;
  XmlDocument document_;
  XmlNode* root_;
};

}  // namespace

Outcome<GraphFile> GraphFile::read(const std::string& path) {
  auto document = readXmlFile(path, {.max_nodes = kXmlMaxGraphNodes, .form = XmlForm::kGraphs});
  if (!document.ok()) return document.failure();
  return GraphFile(std::move(*document));
}

Outcome<GraphFile> GraphFile::parse(std::string_view text, std::string_view file) {
  auto document = parseXml(text, file, {.max_nodes = kXmlMaxGraphNodes, .form = XmlForm::kGraphs});
  if (!document.ok()) return document.failure();
  return GraphFile(std::move(*document));
}

Outcome<std::optional<ChannelGraph>> GraphFile::find(Algorithm algorithm, const Graph& graph, bool inter,
                                                     const Settings& settings) const {
  std::optional<ChannelGraph> found;
  GraphReader reader(document_, graph, inter, algorithm);
  for (const XmlNode* element : document_.graphs()->children) {
    const std::string* const id = element->find("id");
    if (id == nullptr)
      return Error{where(document_, element->position) +
                   ": <graph> has no id; write 0 (ring), 1 (tree), 2 (CollNet chain), 3 (NVLS) or 4 (CollNet "
                   "direct)"};
    if (std::strtol(id->c_str(), nullptr, 0) != static_cast<long>(algorithm)) continue;
    ChannelGraph read;
    if (!reader.read(*element, read)) return Error{reader.error()};
    // NCCL leaves out what NCCL_CROSS_NIC=0 forbids.
    if (settings.cross_nic == 0 && read.cross_nic == 1) continue;
    found = std::move(read);
  }
  return found;
}

Outcome<std::string> graphFileText(const CommunicatorGraphs& graphs, const Graph& graph,
                                   const Settings& settings) {
  GraphWriter writer(graph, settings, graphs.inter);
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kCollNetDirect,
                                    Algorithm::kCollNetChain, Algorithm::kNvls}) {
    const char* const nameless = writer.add(graphs.of(algorithm));
    if (nameless != nullptr)
      return Error{
          "the " + std::string(algorithmTitle(algorithm)) + " graph uses a path of type " + nameless +
          ", for which a graph file has no name: NCCL with NCCL_GRAPH_DUMP_FILE fails its init here; "
          "use --format json"};
  }
  return writer.text();
}

}  // namespace railwise::topo
