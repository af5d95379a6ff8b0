// The C ABI: checks arguments, reads structures of older and newer callers, and copies texts into memory from
// malloc. The C++ API does everything else.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "railwise/topology.h"
#include "railwise/topology_c.h"

using railwise::topology::Machine;
using railwise::topology::Result;

struct railwise_topology {
  Machine machine;
};

namespace {

constexpr std::size_t kMostOptionBytes =
    // No structure of this API becomes this large; a larger size is garbage.
    4096;

char* copied(const std::string& text) noexcept {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void setError(char** error, const std::string& text) noexcept {
  if (error != nullptr) *error = copied(text);
}

// Reads a structure of the version that the caller was compiled with. An older structure is shorter. A newer
// one must have zeros in the fields that this library does not know. Returns null if all is right, otherwise
// what is wrong.
template <typename T>
const char* readOptions(const T* given, T& options) {
  if (given == nullptr) return nullptr;
  if (given->size < sizeof(std::size_t) || given->size > kMostOptionBytes || given->size % alignof(T) != 0)
    return "options.size is not the size of the structure: begin with the _OPTIONS_INIT of topology_c.h";
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  std::memcpy(&options, bytes, std::min(given->size, sizeof options));
  const auto is_set = [](unsigned char byte) { return byte != 0; };
  if (given->size > sizeof options && std::any_of(bytes + sizeof options, bytes + given->size, is_set))
    return "options of a later version are set, which this library does not know";
  return nullptr;
}

std::string textOr(const char* text, const char* otherwise) { return text != nullptr ? text : otherwise; }

std::vector<std::string> listOf(const char* const* texts) {
  std::vector<std::string> list;
  for (; texts != nullptr && *texts != nullptr; ++texts) list.emplace_back(*texts);
  return list;
}

const char* translate(const railwise_topology_options_t* given, railwise::topology::Options& options) {
  railwise_topology_options_t read = RAILWISE_TOPOLOGY_OPTIONS_INIT;
  if (const char* wrong = readOptions(given, read); wrong != nullptr) return wrong;
  options.nccl = static_cast<railwise::topology::Nccl>(read.nccl);
  options.gpu_sm = read.gpu_sm;
  options.nvswitch_links = read.nvswitch_links;
  if (read.nic_speed_mbps != 0) options.nic_speed_mbps = read.nic_speed_mbps;
  options.fuse_nics = read.fuse_nics != 0;
  options.xgmi_as_nvlink = read.xgmi_as_nvlink != 0;
  options.cpu = textOr(read.cpu, "");
  options.variables = listOf(read.variables);
  return nullptr;
}

const char* translate(const railwise_topology_generate_options_t* given,
                      railwise::topology::GenerateOptions& options) {
  railwise_topology_generate_options_t read = RAILWISE_TOPOLOGY_GENERATE_OPTIONS_INIT;
  if (const char* wrong = readOptions(given, read); wrong != nullptr) return wrong;
  options.pairing = textOr(read.pairing, "order");
  options.table = textOr(read.table, "");
  options.gpus_per_bridge = read.gpus_per_bridge;
  options.force = read.force != 0;
  options.nic_class = textOr(read.nic_class, "");
  options.nic_device = textOr(read.nic_device, "");
  options.cpu = textOr(read.cpu, "");
  options.exclude = listOf(read.exclude);
  return nullptr;
}

const char* translate(const railwise_topology_pick_options_t* given,
                      railwise::topology::PickOptions& options) {
  railwise_topology_pick_options_t read = RAILWISE_TOPOLOGY_PICK_OPTIONS_INIT;
  if (const char* wrong = readOptions(given, read); wrong != nullptr) return wrong;
  options.of = textOr(read.of, "");
  options.exclude = textOr(read.exclude, "");
  options.nic = textOr(read.nic, "");
  options.occupied = read.occupied != 0;
  return nullptr;
}

constexpr const char* kNoMachine = "the machine is NULL";
constexpr const char* kNoPath = "the path is NULL";

// Runs `call`, which returns a Result or throws when memory runs out. If it fails, returns `otherwise` and
// sets *error.
template <typename Call, typename Take, typename Answer>
Answer answer(char** error, Answer otherwise, const Call& call, const Take& take) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    auto result = call();
    if (result) return take(*result);
    setError(error, result.error());
  } catch (const std::exception& exception) {
    setError(error, exception.what());
  }
  return otherwise;
}

// Null: there was no memory for the copy; *error says so.
char* handedOut(char** error, const std::string& text) {
  char* copy = copied(text);
  if (copy == nullptr) setError(error, "out of memory");
  return copy;
}

template <typename Call>
char* textAnswer(char** error, const Call& call) noexcept {
  return answer(error, static_cast<char*>(nullptr), call,
                [error](const std::string& text) { return handedOut(error, text); });
}

template <typename Call>
char* machineText(const railwise_topology_t* machine, char** error, const Call& call) noexcept {
  return textAnswer(error, [&]() -> Result<std::string> {
    if (machine == nullptr) return railwise::topology::Failure{kNoMachine};
    return call(machine->machine);
  });
}

template <typename Call>
char* twoMachinesText(const railwise_topology_t* left, const railwise_topology_t* right, char** error,
                      const Call& call) noexcept {
  return textAnswer(error, [&]() -> Result<std::string> {
    if (left == nullptr || right == nullptr) return railwise::topology::Failure{kNoMachine};
    return call(left->machine, right->machine);
  });
}

// `missing`: the error to report instead of calling `load`; null: no argument is missing.
template <typename Load>
railwise_topology_t* loaded(const railwise_topology_options_t* given, const char* missing, char** error,
                            const Load& load) noexcept {
  const auto call = [&]() -> Result<Machine> {
    railwise::topology::Options options;
    const char* wrong = missing != nullptr ? missing : translate(given, options);
    if (wrong != nullptr) return railwise::topology::Failure{wrong};
    return load(options);
  };
  return answer(error, static_cast<railwise_topology_t*>(nullptr), call,
                [](Machine& machine) { return new railwise_topology{std::move(machine)}; });
}

}  // namespace

extern "C" {

const char* railwise_topology_version(void) { return railwise::topology::version(); }

int railwise_topology_nccl_release(const char* text, char** error) {
  return answer(
      error, -1, [text] { return railwise::topology::ncclRelease(textOr(text, "")); },
      [](const railwise::topology::Nccl release) { return static_cast<int>(release); });
}

railwise_topology_t* railwise_topology_load_file(const char* path, const railwise_topology_options_t* options,
                                                 char** error) {
  return loaded(options, path == nullptr ? kNoPath : nullptr, error,
                [path](const auto& wanted) { return Machine::loadFile(path, wanted); });
}

railwise_topology_t* railwise_topology_load_text(const char* xml, size_t length, const char* name,
                                                 const railwise_topology_options_t* options, char** error) {
  return loaded(options, xml == nullptr ? "the text is NULL" : nullptr, error, [&](const auto& wanted) {
    return Machine::parse(std::string(xml, length), textOr(name, "topology"), wanted);
  });
}

railwise_topology_t* railwise_topology_load_sysfs(const char* root,
                                                  const railwise_topology_options_t* options, char** error) {
  return loaded(options, root == nullptr ? kNoPath : nullptr, error,
                [root](const auto& wanted) { return Machine::loadTree(root, wanted); });
}

railwise_topology_t* railwise_topology_load_merged(const char* file, const char* root,
                                                   const railwise_topology_options_t* options, char** error) {
  return loaded(options, file == nullptr || root == nullptr ? kNoPath : nullptr, error,
                [&](const auto& wanted) { return Machine::loadMerged(file, root, wanted); });
}

void railwise_topology_free(railwise_topology_t* machine) { delete machine; }

int railwise_topology_gpu_count(const railwise_topology_t* machine) {
  return machine == nullptr ? -1 : static_cast<int>(machine->machine.gpus().size());
}

int railwise_topology_net_count(const railwise_topology_t* machine) {
  return machine == nullptr ? -1 : static_cast<int>(machine->machine.nets().size());
}

int railwise_topology_chosen_nets(const railwise_topology_t* machine, int gpu, int* nets, int capacity,
                                  char** error) {
  const auto call = [&]() -> Result<std::vector<int>> {
    if (machine == nullptr) return railwise::topology::Failure{kNoMachine};
    if (capacity < 0 || (nets == nullptr && capacity > 0))
      return railwise::topology::Failure{"there is no room of that capacity"};
    return machine->machine.chosenNets(gpu);
  };
  return answer(error, -1, call, [&](const std::vector<int>& chosen) {
    const std::size_t room = std::min(static_cast<std::size_t>(capacity), chosen.size());
    std::copy_n(chosen.begin(), room, nets);
    return static_cast<int>(chosen.size());
  });
}

char* railwise_topology_gpus_json(const railwise_topology_t* machine, char** error) {
  return machineText(machine, error, [](const Machine& m) { return m.gpuTopologyJson(); });
}
char* railwise_topology_json(const railwise_topology_t* machine, char** error) {
  return machineText(machine, error, [](const Machine& m) { return m.json(); });
}
char* railwise_topology_matrix(const railwise_topology_t* machine, char** error) {
  return machineText(machine, error, [](const Machine& m) { return m.matrix(); });
}
char* railwise_topology_xml(const railwise_topology_t* machine, char** error) {
  return machineText(machine, error, [](const Machine& m) { return m.xml(); });
}
char* railwise_topology_svg(const railwise_topology_t* machine, char** error) {
  return machineText(machine, error, [](const Machine& m) { return m.svg(); });
}
char* railwise_topology_html(const railwise_topology_t* machine, char** error) {
  return machineText(machine, error, [](const Machine& m) { return m.html(); });
}

char* railwise_topology_explain(const railwise_topology_t* machine, int gpu, char** error) {
  return machineText(machine, error, [gpu](const Machine& m) { return m.explain(gpu); });
}
char* railwise_topology_explain_json(const railwise_topology_t* machine, int gpu, char** error) {
  return machineText(machine, error, [gpu](const Machine& m) { return m.explainJson(gpu); });
}

char* railwise_topology_pick_json(const railwise_topology_t* machine, int count,
                                  const railwise_topology_pick_options_t* options, char** error) {
  return machineText(machine, error, [&](const Machine& m) -> Result<std::string> {
    railwise::topology::PickOptions wanted;
    if (const char* wrong = translate(options, wanted); wrong != nullptr)
      return railwise::topology::Failure{wrong};
    return m.pickJson(count, wanted);
  });
}

char* railwise_topology_diff(const railwise_topology_t* left, const railwise_topology_t* right,
                             char** error) {
  return twoMachinesText(left, right, error, railwise::topology::diffText);
}
char* railwise_topology_diff_json(const railwise_topology_t* left, const railwise_topology_t* right,
                                  char** error) {
  return twoMachinesText(left, right, error, railwise::topology::diffJson);
}

char* railwise_topology_lint_json(const char* path, char** error) {
  return textAnswer(error, [path]() -> Result<std::string> {
    if (path == nullptr) return railwise::topology::Failure{kNoPath};
    return railwise::topology::lintJson(path);
  });
}

char* railwise_topology_generate(const char* root, const railwise_topology_generate_options_t* options,
                                 char** remarks, char** error) {
  if (remarks != nullptr) *remarks = nullptr;
  const auto call = [&]() -> Result<railwise::topology::Generated> {
    railwise::topology::GenerateOptions wanted;
    const char* wrong = root == nullptr ? kNoPath : translate(options, wanted);
    if (wrong != nullptr) return railwise::topology::Failure{wrong};
    return railwise::topology::generate(root, wanted);
  };
  return answer(error, static_cast<char*>(nullptr), call, [&](const auto& generated) {
    std::string lines;
    for (const std::string& remark : generated.remarks) lines += remark + "\n";
    char* xml = handedOut(error, generated.xml);
    if (xml != nullptr && remarks != nullptr) *remarks = copied(lines);
    return xml;
  });
}

void railwise_topology_string_free(char* text) { std::free(text); }

}  // extern "C"
