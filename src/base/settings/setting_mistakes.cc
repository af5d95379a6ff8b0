#include "base/settings/setting_mistakes.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/settings/config.h"
#include "base/text/words.h"

namespace railwise {
namespace {

// ---- settings that contradict each other. A rule looks at the values that are set, and adds at most one
// mistake.

// The values that are set. An empty value counts as not set, as in NCCL and in Railwise.
class Values {
 public:
  explicit Values(const Environment& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const auto found = environment_.find(name);
    return found != environment_.end() ? found->second : "";
  }
  bool set(const char* name) const { return !text(name).empty(); }
  // As NCCL reads numbers: what is no number counts as 0.
  long long number(const char* name, long long otherwise) const {
    const std::string value = text(name);
    return value.empty() ? otherwise : std::strtoll(value.c_str(), nullptr, 0);
  }
  bool is(const char* name, std::string_view value) const {
    const std::string its = text(name);
    return std::equal(its.begin(), its.end(), value.begin(), value.end(), [](char a, char b) {
      const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
      return lower(a) == lower(b);
    });
  }
  std::string assignment(const char* name) const { return std::string(name) + "=" + text(name); }

 private:
  const Environment& environment_;
};

using Mistakes = std::vector<SettingMistake>;

void add(Mistakes& found, const char* name, const char* other, std::string text, std::string fix) {
  found.push_back({SettingMistake::Kind::kContradiction, name, other, std::move(text), std::move(fix)});
}

// Is Railwise in the list of plugins, by its short name or by its file?
bool asksForRailwise(const Values& values) {
  return values.text("NCCL_NET_PLUGIN").find("railwise") != std::string::npos;
}

void whichNetwork(const Values& values, Mistakes& found) {
  const bool railwise = asksForRailwise(values);
  const std::string net = values.text("NCCL_NET");
  const std::string plugin = values.assignment("NCCL_NET_PLUGIN");
  if (railwise && !net.empty() && !values.is("NCCL_NET", "Railwise"))
    add(found, "NCCL_NET", "NCCL_NET_PLUGIN",
        "NCCL_NET=" + net + " wins over " + plugin + ": NCCL takes the network " + net + ", not Railwise",
        "set NCCL_NET=Railwise, or unset NCCL_NET_PLUGIN");
  if (values.is("NCCL_NET", "Railwise") && values.is("NCCL_NET_PLUGIN", "none")) {
    add(found, "NCCL_NET", "NCCL_NET_PLUGIN",
        "NCCL_NET=" + net +
            " asks for Railwise, and NCCL_NET_PLUGIN=none keeps NCCL from loading it: NCCL's init fails",
        "set NCCL_NET_PLUGIN=railwise");
    found.back().init_fails = true;
  }
  const bool verbs = values.is("RAILWISE_DEVICE", "verbs");
  if (railwise && values.number("NCCL_IB_DISABLE", 0) == 1 && !verbs) {
    const bool fails = values.is("NCCL_NET", "Railwise");
    add(found, "NCCL_IB_DISABLE", "NCCL_NET_PLUGIN",
        "NCCL_IB_DISABLE=1 switches Railwise off too, although " + plugin + " asks for it: NCCL " +
            (fails ? "takes no other network with NCCL_NET=Railwise, and its init fails" : "takes sockets"),
        "unset NCCL_IB_DISABLE; or set RAILWISE_DEVICE=verbs, and NCCL_IB_DISABLE=1 is for NCCL's own "
        "network alone");
    found.back().init_fails = fails;
  }
}

void addresses(const Values& values, Mistakes& found) {
  if (values.number("NCCL_IB_GID_INDEX", -1) < 0) return;
  for (const char* other : {"NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM"}) {
    if (!values.set(other)) continue;
    add(found, "NCCL_IB_GID_INDEX", other,
        values.assignment("NCCL_IB_GID_INDEX") + " wins over " + values.assignment(other) +
            ", which has no effect: the index names one address of every port",
        "unset NCCL_IB_GID_INDEX, whose numbers can change when an interface gets another address; or "
        "unset " +
            std::string(other));
  }
}

void gpuDirect(const Values& values, Mistakes& found) {
  const bool never = values.text("NCCL_NET_GDR_LEVEL") == "LOC" || values.text("NCCL_NET_GDR_LEVEL") == "0";
  if (never && values.number("NCCL_NET_GDR_READ", 0) == 1)
    add(found, "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ",
        values.assignment("NCCL_NET_GDR_LEVEL") + " wins over NCCL_NET_GDR_READ=1: no NIC reads GPU memory",
        "unset NCCL_NET_GDR_LEVEL for GPUDirect RDMA");
  if (never && values.number("NCCL_NET_GDR_C2C", 0) == 1)
    add(found, "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_C2C",
        values.assignment("NCCL_NET_GDR_LEVEL") +
            " and NCCL_NET_GDR_C2C=1: no GPUDirect RDMA is allowed, and it is allowed over C2C links",
        "unset one of the two");
}

// The InfiniBand specification leaves the acknowledge timeout to the device up to four times the value;
// beyond this one a job waits many minutes for a peer that is gone.
constexpr long long kLongTimeout = 22;

void timeouts(const Values& values, Mistakes& found) {
  const long long timeout = values.number("NCCL_IB_TIMEOUT", 20);
  if (timeout > kLongTimeout && timeout <= 31) {
    const long long retries = std::clamp(values.number("NCCL_IB_RETRY_CNT", 7), 0LL, 7LL);
    const double seconds = 4.096e-6 * static_cast<double>(1ULL << timeout) * static_cast<double>(retries + 1);
    char text[200];
    std::snprintf(
        text, sizeof text,
        "NCCL_IB_TIMEOUT=%lld with NCCL_IB_RETRY_CNT=%lld: a queue pair whose peer is gone fails after "
        "%.0f s at the earliest (4.096 us * 2^%lld * %lld)",
        timeout, retries, seconds, timeout, retries + 1);
    add(found, "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", text,
        "set NCCL_IB_TIMEOUT to 22 or less, or unset it: Railwise goes on over another path long before");
  }
  if (values.set("RAILWISE_FAILOVER") && values.number("RAILWISE_FAILOVER", 1) == 0 &&
      values.set("RAILWISE_FAILOVER_TIMEOUT"))
    add(found, "RAILWISE_FAILOVER", "RAILWISE_FAILOVER_TIMEOUT",
        "RAILWISE_FAILOVER=0 wins over " + values.assignment("RAILWISE_FAILOVER_TIMEOUT") +
            ": the first failure that the NIC's retries do not bridge ends the connection",
        "unset RAILWISE_FAILOVER, or unset RAILWISE_FAILOVER_TIMEOUT");
  if (asksForRailwise(values) && values.number("NCCL_IB_RESILIENCY_PORT_FAILOVER", 1) == 0 &&
      values.number("RAILWISE_FAILOVER", 1) != 0)
    add(found, "NCCL_IB_RESILIENCY_PORT_FAILOVER", "RAILWISE_FAILOVER",
        values.assignment("NCCL_IB_RESILIENCY_PORT_FAILOVER") +
            " does not turn off Railwise's failover: only NCCL's own InfiniBand code reads it",
        "set RAILWISE_FAILOVER=0 on all ranks for no failover; else unset NCCL_IB_RESILIENCY_PORT_FAILOVER");
  if (values.number("NCCL_NET_OPTIONAL_RECV_COMPLETION", 0) == 1 &&
      values.number("RAILWISE_FAILOVER", 1) != 0)
    add(found, "NCCL_NET_OPTIONAL_RECV_COMPLETION", "RAILWISE_FAILOVER",
        "NCCL_NET_OPTIONAL_RECV_COMPLETION=1 has no effect while RAILWISE_FAILOVER is on: nobody would "
        "repeat what was lost",
        "set RAILWISE_FAILOVER=0 if early completions are worth more than failover; else unset it");
}

void insideNode(const Values& values, Mistakes& found) {
  if (values.number("NCCL_P2P_DISABLE", 0) == 1 && values.set("NCCL_P2P_LEVEL"))
    add(found, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",
        "NCCL_P2P_DISABLE=1 wins over " + values.assignment("NCCL_P2P_LEVEL") +
            ": GPUs do not write into each other's memory",
        "unset NCCL_P2P_DISABLE, or unset NCCL_P2P_LEVEL");
  if (values.number("NCCL_PXN_DISABLE", 0) == 1 && values.number("NCCL_P2P_PXN_LEVEL", 0) > 0)
    add(found, "NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL",
        "NCCL_PXN_DISABLE=1 wins over " + values.assignment("NCCL_P2P_PXN_LEVEL") +
            ": no data go through another GPU's NIC",
        "unset one of the two");
}

void leastAndMost(const Values& values, Mistakes& found) {
  for (const auto& [least, most] :
       {std::pair{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}, std::pair{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"},
        std::pair{"NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"}}) {
    const long long low = values.number(least, 0);
    const long long high = values.number(most, 0);
    if (low > 0 && high > 0 && low > high)
      add(found, least, most, values.assignment(least) + " is more than " + values.assignment(most),
          "set the minimum to at most the maximum, or unset both");
  }
}

void merging(const Values& values, Mistakes& found) {
  if (!values.set("NCCL_IB_MERGE_NICS") || values.number("NCCL_IB_MERGE_NICS", 1) != 0) return;
  for (const char* other : {"NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE"}) {
    if (!values.set(other) || values.is(other, "LOC")) continue;
    add(found, "NCCL_IB_MERGE_NICS", other,
        "NCCL_IB_MERGE_NICS=0 wins over " + values.assignment(other) +
            ": every port stays a device of its own",
        "unset NCCL_IB_MERGE_NICS, or unset " + std::string(other));
  }
}

// A list of NVLS and NVLSTree alone leaves nothing where NVLS is off.
void nvlsAlone(const Values& values, Mistakes& found) {
  const std::vector<std::string> algorithms = splitAt(values.text("NCCL_ALGO"), ',');
  const bool alone = std::ranges::all_of(algorithms, [](const std::string& word) {
    return upperCase(word) == "NVLS" || upperCase(word) == "NVLSTREE";
  });
  if (!values.set("NCCL_ALGO") || !alone || values.number("NCCL_NVLS_ENABLE", 2) != 0) return;
  add(found, "NCCL_NVLS_ENABLE", "NCCL_ALGO",
      "NCCL_NVLS_ENABLE=0 leaves no algorithm of " + values.assignment("NCCL_ALGO") + ": collectives fail",
      "unset NCCL_ALGO, or unset NCCL_NVLS_ENABLE");
}

void tunerAndCollNet(const Values& values, Mistakes& found) {
  const std::string tuner = values.text("NCCL_TUNER_PLUGIN");
  if (values.set("RAILWISE_TUNER_CONFIG") && !tuner.empty() && tuner.find("railwise") == std::string::npos)
    add(found, "NCCL_TUNER_PLUGIN", "RAILWISE_TUNER_CONFIG",
        values.assignment("NCCL_TUNER_PLUGIN") + " wins over " + values.assignment("RAILWISE_TUNER_CONFIG") +
            ": NCCL takes no tuner from Railwise, and no override is applied",
        "unset NCCL_TUNER_PLUGIN, or unset RAILWISE_TUNER_CONFIG");
  if (asksForRailwise(values) && values.number("NCCL_COLLNET_ENABLE", 0) == 1)
    add(found, "NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN",
        "NCCL_COLLNET_ENABLE=1 has no effect with " + values.assignment("NCCL_NET_PLUGIN") +
            ": Railwise offers no CollNet (SHARP), and NCCL goes on without it",
        "unset NCCL_COLLNET_ENABLE; or take the network plugin that comes with SHARP");
}

using Kind = NcclVariable::Kind;

bool isAmong(const std::string& word, const std::vector<std::string>& words, bool exact) {
  for (const std::string& known : words) {
    if (exact ? word == known : upperCase(word) == upperCase(known)) return true;
  }
  return false;
}

std::string didYouMean(const std::string& word, const std::vector<std::string>& words) {
  std::vector<std::string> upper;
  for (const std::string& known : words) upper.push_back(upperCase(known));
  const auto near = closest(upperCase(word), upper);
  return near ? "; did you mean " + *near + "?" : "";
}

SettingMistake ofValue(const std::string& name, std::string text, std::string fix) {
  return {SettingMistake::Kind::kValue, name, "", std::move(text), std::move(fix)};
}

// What strtoll(value, nullptr, 0) of NCCL makes of a value.
struct NcclNumber {
  long long value = 0;
  std::string rest;  // what NCCL does not look at
  bool fits = true;
};

NcclNumber ncclNumber(const std::string& text) {
  NcclNumber number;
  char* end = nullptr;
  errno = 0;
  number.value = std::strtoll(text.c_str(), &end, 0);
  number.fits = errno == 0;
  number.rest = end;
  return number;
}

constexpr long long kWarp = 32;  // threads

void checkNumber(const NcclVariable& row, const std::string& value, std::vector<SettingMistake>& found) {
  const std::string assignment = std::string(row.name) + "=" + value;
  const bool ranged = row.min != std::numeric_limits<int64_t>::min();
  const std::string range =
      ranged ? "a number from " + std::to_string(row.min) + " to " + std::to_string(row.max) : "a number";
  const NcclNumber number = ncclNumber(value);
  if (!number.fits) {
    found.push_back(ofValue(row.name, assignment + " is larger than NCCL's numbers: NCCL uses the default",
                            "set " + range));
  } else if (number.rest.size() == value.size() || !number.rest.empty()) {
    found.push_back(ofValue(row.name,
                            assignment + " is not a number: NCCL reads it as " +
                                std::to_string(number.value) + " and says nothing",
                            "set " + range));
  } else if (const std::string_view name = row.name;
             (name == "NCCL_NTHREADS" || name == "NCCL_LL128_NTHREADS") && number.value > 0 &&
             number.value % kWarp != 0) {
    // src/graph/tuning.cc, getNthreads
    found.push_back(ofValue(row.name, assignment + " is no multiple of 32: NCCL uses its maximum",
                            "set a multiple of 32"));
  } else if (ranged && (number.value < row.min || number.value > row.max)) {
    found.push_back(ofValue(
        row.name, assignment + " is out of range: " + range + " has a meaning, and NCCL does not check",
        "set " + range));
  }
}

void checkWord(const NcclVariable& row, const std::string& value, std::vector<SettingMistake>& found) {
  const std::vector<std::string> words = splitAt(row.words, ',');
  if (isAmong(value, words, row.kind == Kind::kExactWord)) return;
  std::string text = std::string(row.name) + "=" + value + " is none of its words";
  if (isAmong(value, words, false)) text += ", which NCCL wants in capital letters";
  found.push_back(ofValue(row.name, text + didYouMean(value, words), "set one of " + joined(words)));
}

// NCCL_ALGO and NCCL_PROTO: lists of words after an optional ^; since 2.24 several lists, each after the name
// of a collective and a colon, with semicolons between them; a list that is wrong fails init then (parseList
// of src/graph/tuning.cc). NCCL_DEBUG_SUBSYS is one list, whose wrong words are passed over.
struct ListOfWords {
  const char* name;
  const char* words;
  bool by_collective;
};

constexpr const char* kCollectives = "Broadcast,Reduce,AllGather,ReduceScatter,AllReduce";
constexpr ListOfWords kLists[] = {
    {"NCCL_ALGO", "Tree,Ring,CollNetDirect,CollNetChain,NVLS,NVLSTree,PAT", true},
    {"NCCL_PROTO", "LL,LL128,Simple", true},
    {"NCCL_DEBUG_SUBSYS",
     "INIT,COLL,P2P,SHM,NET,GRAPH,TUNING,ENV,ALLOC,ALLOC_HOST,CALL,PROXY,NVLS,BOOTSTRAP,REG,PROFILE,RAS,"
     "DESTROY,"
     "VERBS,ALL",
     false},
};

void checkList(const ListOfWords& row, const std::string& value, std::vector<SettingMistake>& found) {
  const auto add = [&](const std::string& text, const char* fix) {
    found.push_back(ofValue(row.name,
                            std::string(row.name) + "=" + value + ": " + text +
                                (row.by_collective ? "; NCCL's init fails with it (2.24.3 and later)" : ""),
                            fix));
    found.back().init_fails = row.by_collective;
  };
  const auto check = [&](const std::string& word, const char* known) {
    const std::vector<std::string> words = splitAt(known, ',');
    if (isAmong(word, words, false)) return;
    add("\"" + word + "\" is none of " + joined(words) + didYouMean(word, words), "correct the word");
  };
  const auto lists = row.by_collective ? fullPartsOf(value, ';') : std::vector<std::string>{value};
  for (const std::string& list : lists) {
    std::vector<std::string> parts = row.by_collective ? fullPartsOf(list, ':') : std::vector{list};
    if (parts.size() > 1) {
      check(parts[0], kCollectives);
    } else if (parts.empty() || (row.by_collective && (&list != lists.data() || value.starts_with(';')))) {
      add("\"" + list + "\" wants a collective and a colon before it, as each list but the first",
          "write e.g. allreduce:ring;allgather:tree");
      continue;
    }
    std::string& words = parts[parts.size() > 1 ? 1 : 0];
    if (words.starts_with('^')) words.erase(0, 1);
    for (const std::string& word : fullPartsOf(words, ',')) check(word, row.words);
  }
}

}  // namespace

std::vector<SettingMistake> valueMistakes(const Environment& environment) {
  std::vector<SettingMistake> found;
  for (const auto& [name, value] : environment) {
    if (value.empty()) continue;
    if (const std::string accepted = acceptedInstead(name, value); !accepted.empty()) {
      const bool fails = name == "RAILWISE_STRICT" || name == "RAILWISE_DEVICE";
      found.push_back(ofValue(name,
                              name + "=" + value + " is not accepted: " +
                                  (fails ? "init will fail" : "it is as if it were not set"),
                              "accepted: " + accepted));
      found.back().init_fails = fails;
      continue;
    }
    for (const ListOfWords& row : kLists) {
      if (name == row.name) checkList(row, value, found);
    }
    const NcclVariable* row = findNcclVariable(name);
    if (row == nullptr) continue;
    if (row->kind == Kind::kNumber) checkNumber(*row, value, found);
    if (row->kind == Kind::kWord || row->kind == Kind::kExactWord) checkWord(*row, value, found);
  }
  return found;
}

std::vector<SettingMistake> settingsNoLongerRead(const Environment& environment) {
  std::vector<SettingMistake> found;
  for (const auto& [name, value] : environment) {
    const NcclVariable* row = findNcclVariable(name);
    if (row == nullptr || !row->gone) continue;
    const std::string instead = row->instead;
    found.push_back(
        {SettingMistake::Kind::kNoLongerRead, name, "",
         name + "=" + value + " has no effect: NCCL " + row->until + " was the last to read it",
         instead.empty() ? "unset " + name : "unset " + name + "; " + instead + " took its place"});
  }
  return found;
}

// InfiniBand specification, Local ACK Timeout: 0 is infinite, and the field has five bits. NCCL hands 8 bits
// to libibverbs, and takes its default in place of a number beyond 64 bits (src/misc/param.cc).
static bool waitsWithoutEnd(const std::string& value) {
  errno = 0;
  const auto given = std::strtoll(value.c_str(), nullptr, 0);
  const auto bits = static_cast<uint8_t>(given);
  return errno == 0 && (bits < 1 || bits > 31);
}

std::span<const HidingSetting> hidingSettings() {
  using enum HidingSetting::Kind;
  static constexpr auto kNumber = [](const std::string& value) {
    return std::strtoll(value.c_str(), nullptr, 0);
  };
  static constexpr auto kOn = [](const std::string& value) {
    return kNumber(value) == 1 || upperCase(value) == "TRUE";
  };
  static constexpr auto kOff = [](const std::string& value) { return value == "0"; };
  static constexpr auto kSet = [](const std::string& value) { return !value.empty(); };
  static constexpr char kSockets[] =
      "All traffic between hosts goes over TCP sockets, often at less than a tenth of the speed.";
  static constexpr HidingSetting kSettings[] = {
      {"NCCL_IB_TIMEOUT", waitsWithoutEnd, kHangs,
       "The NIC then waits without end: a peer that is gone is never reported, and the job hangs."},
      {"NCCL_IGNORE_DISABLED_P2P", [](const std::string& value) { return kOn(value) || kNumber(value) == 2; },
       kHides,
       "GPUs that are joined by NVLink and cannot use it are no error then: a broken NVLink stays hidden."},
      {"NCCL_IB_DISABLE", [](const std::string& value) { return kNumber(value) != 0; }, kNoRdma, kSockets},
      {"NCCL_NET", [](const std::string& value) { return upperCase(value) == "SOCKET"; }, kNoRdma, kSockets},
      {"NCCL_CHECKS_DISABLE", kOn, kHides, "Wrong calls of the program are not found then."},
      {"NCCL_IB_GID_INDEX", [](const std::string& value) { return kNumber(value) >= 0; }, kLeftOver,
       "The index names another address when an interface gets one or loses one: the job then fails at "
       "connect. Railwise, and NCCL since 2.21, choose by family and version."},
      {"NCCL_ALGO", kSet, kLeftOver,
       "One algorithm for all sizes is slow for most, and an algorithm that is not possible is an error."},
      {"NCCL_PROTO", kSet, kLeftOver,
       "One protocol for all sizes is slow for most; LL128 where it is not safe gives wrong data."},
      {"NCCL_IB_ECE_ENABLE", kOff, kLeftOver,
       "Both NICs then agree on no extensions of congestion control and retransmission. It serves to "
       "measure once."},
  };
  return kSettings;
}

std::vector<SettingMistake> settingMistakes(const Environment& environment) {
  std::vector<SettingMistake> all = valueMistakes(environment);
  for (auto* more : {&contradictions, &settingsNoLongerRead}) {
    std::vector<SettingMistake> found = more(environment);
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  return all;
}

std::vector<SettingMistake> contradictions(const Environment& environment) {
  const Values values(environment);
  Mistakes found;
  for (auto* rule : {&whichNetwork, &addresses, &gpuDirect, &timeouts, &insideNode, &leastAndMost, &merging,
                     &nvlsAlone, &tunerAndCollNet})
    rule(values, found);
  return found;
}

}  // namespace railwise
