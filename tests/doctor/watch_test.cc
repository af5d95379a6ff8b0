// The watch of a node: a week in seconds, with a clock and a tree that the test moves.
#include "doctor/watch/watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "doctor/log/job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

constexpr int64_t kStart = 1'795'000'000;
constexpr const char* kPort = "/sys/class/infiniband/mlx5_0/ports/1";

// A machine with one InfiniBand port whose files the test writes.
struct Node {
  Node() {
    tree.file("/proc/sys/kernel/random/boot_id", "boot-1\n");
    tree.file(std::string(kPort) + "/link_layer", "InfiniBand\n");
    up(true);
    count("counters/link_downed", 3);
    count("counters/symbol_error", 0);
  }
  void up(bool active) { tree.file(std::string(kPort) + "/state", active ? "4: ACTIVE\n" : "1: DOWN\n"); }
  void count(const std::string& counter, int64_t value) {
    tree.file(std::string(kPort) + "/" + counter, std::to_string(value) + "\n");
  }
  std::vector<WatchEvent> look(int64_t seconds, std::vector<std::string> kernel = {}) {
    now += seconds;
    Look look = lookAt(tree, now, true);
    look.kernel = std::move(kernel);
    return takeLook(state, look);
  }

  sysfs::MemoryTree tree;
  WatchState state;
  int64_t now = kStart;
};

std::string namesOf(const std::vector<WatchEvent>& events) {
  std::string all;
  for (const WatchEvent& event : events) {
    const char* const phases[] = {"begin", "repeat", "end"};
    all += std::string(all.empty() ? "" : ", ") + phases[static_cast<int>(event.phase)] + " " +
           event.rule->check;
  }
  return all;
}

// An error leaves the card's link with fewer lanes, until somebody seats the card again.
TEST(Watch, APciLinkThatIsNarrowerThanItsSlot) {
  Node node;
  const std::string card = "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0";
  node.tree.link("/sys/class/infiniband/mlx5_0/device", card);
  for (const char* const file : {"/current_link_speed", "/max_link_speed"})
    node.tree.file(card + file, "32.0 GT/s PCIe\n");
  node.tree.file(card + "/max_link_width", "16\n");
  const auto lanes = [&](const char* width) { node.tree.file(card + "/current_link_width", width); };
  lanes("16\n");
  EXPECT_EQ(namesOf(node.look(10)), "");
  lanes("8\n");
  const auto events = node.look(10);
  ASSERT_EQ(namesOf(events), "begin pcie-link");
  EXPECT_EQ(events[0].latch.seen, "32 GT/s x8; card and slot can 32 GT/s x16");
  EXPECT_EQ(events[0].bdf, "0000:18:00.0");
  EXPECT_EQ(namesOf(node.look(10)), "") << "it lasts, and is repeated each hour";
  lanes("255\n");
  EXPECT_EQ(namesOf(node.look(310)), "end pcie-link") << "a link that the kernel does not know";
}

TEST(Watch, AHealthyNodeIsSilentAndFine) {
  Node node;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(namesOf(node.look(10)), "");
  const Health health = healthOf(node.state, node.now);
  EXPECT_TRUE(health.watched);
  EXPECT_FALSE(health.worst.has_value());
}

TEST(Watch, APortThatIsDownForHalfAMinuteIsAnErrorUntilItWasUpForFiveMinutes) {
  Node node;
  (void)node.look(1);
  node.up(false);
  EXPECT_EQ(namesOf(node.look(1)), "");
  EXPECT_EQ(namesOf(node.look(29)), "");
  EXPECT_EQ(namesOf(node.look(1)), "begin port-down");
  EXPECT_EQ(healthOf(node.state, node.now).worst, Severity::kError);
  EXPECT_HAS(healthOf(node.state, node.now).text, "mlx5_0/1");
  EXPECT_EQ(namesOf(node.look(3599)), "");
  EXPECT_EQ(namesOf(node.look(1)), "repeat port-down");
  node.up(true);
  EXPECT_EQ(namesOf(node.look(1)), "");
  EXPECT_EQ(namesOf(node.look(298)), "");
  EXPECT_EQ(namesOf(node.look(1)), "end port-down");
}

TEST(Watch, APortThatNeverWasUpHasNoCable) {
  Node node;
  node.up(false);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(namesOf(node.look(10)), "");
}

// Between two looks it went down and came back: only the kernel has seen that.
TEST(Watch, EachFlapBetweenTwoLooksIsCountedOnce) {
  Node node;
  (void)node.look(1);
  EXPECT_EQ(node.state.ports[0].flaps, 0);  // of before the watch
  node.count("counters/link_downed", 5);
  EXPECT_EQ(namesOf(node.look(10)), "begin port-flap");
  EXPECT_EQ(node.state.ports[0].flaps, 2);
  node.count("counters/link_downed", 6);
  EXPECT_EQ(namesOf(node.look(10)), "begin port-flapping");
  node.count("counters/link_downed", 0);  // the driver was loaded again
  EXPECT_EQ(namesOf(node.look(10)), "");
  node.count("counters/link_downed", 1);
  (void)node.look(10);
  EXPECT_EQ(node.state.ports[0].flaps, 4);
  EXPECT_EQ(namesOf(node.look(3601)), "end port-flap, end port-flapping");
}

TEST(Watch, OfAPortWithoutCountersLooksCountTheFlaps) {
  Node node;
  sysfs::MemoryTree bare;
  bare.file("/proc/sys/kernel/random/boot_id", "boot-1\n").file(std::string(kPort) + "/state", "4: ACTIVE\n");
  (void)takeLook(node.state, lookAt(bare, kStart, true));
  bare.file(std::string(kPort) + "/state", "1: DOWN\n");
  EXPECT_EQ(namesOf(takeLook(node.state, lookAt(bare, kStart + 1, false))), "begin port-flap");
  (void)takeLook(node.state, lookAt(bare, kStart + 2, true));
  EXPECT_EQ(node.state.ports[0].flaps, 1);
}

TEST(Watch, OfAnEthernetPortTheInterfaceCountsTheFlaps) {
  Node node;
  node.tree.file(std::string(kPort) + "/link_layer", "Ethernet\n");
  node.tree.file(std::string(kPort) + "/gid_attrs/ndevs/0", "eth4\n");
  node.tree.file("/sys/class/net/eth4/carrier_down_count", "7\n");
  (void)node.look(10);
  node.tree.file("/sys/class/net/eth4/carrier_down_count", "8\n");
  EXPECT_EQ(namesOf(node.look(10)), "begin port-flap");
  EXPECT_EQ(node.state.ports[0].flaps, 1);
}

TEST(Watch, ADeviceThatIsGoneIsAnErrorAfterThreeLooks) {
  Node node;
  (void)node.look(1);
  node.tree = sysfs::MemoryTree();
  node.tree.file("/proc/sys/kernel/random/boot_id", "boot-1\n");
  EXPECT_EQ(namesOf(node.look(1)), "");
  EXPECT_EQ(namesOf(node.look(1)), "");
  EXPECT_EQ(namesOf(node.look(1)), "begin device-gone");
}

TEST(Watch, ACounterIsJudgedByItsRate) {
  Node node;
  (void)node.look(10);
  node.count("counters/symbol_error", 100);
  EXPECT_EQ(namesOf(node.look(600)), "");  // 120 in an hour are allowed
  node.count("counters/symbol_error", 121);
  EXPECT_EQ(namesOf(node.look(600)), "begin symbol-errors");
  node.count("counters/symbol_error", 1000);
  EXPECT_EQ(namesOf(node.look(10)), "begin symbol-error-storm");
  EXPECT_EQ(healthOf(node.state, node.now).worst, Severity::kError);
}

TEST(Watch, WhatGrewWhileNobodyLookedIsNoRate) {
  Node node;
  (void)node.look(10);
  node.count("counters/symbol_error", 5000);
  EXPECT_EQ(namesOf(node.look(86'400)), "");
  node.count("counters/symbol_error", 5101);
  EXPECT_EQ(namesOf(node.look(10)), "begin symbol-error-storm");
}

TEST(Watch, APortThatNeverWasUpIsForgottenWhenItGoes) {
  Node node;
  node.up(false);
  (void)node.look(1);
  node.tree = sysfs::MemoryTree();
  node.tree.file("/proc/sys/kernel/random/boot_id", "boot-1\n");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(namesOf(node.look(1)), "");
  EXPECT_TRUE(node.state.ports.empty());
}

TEST(Watch, ALineOfTheKernelIsJoinedToItsPort) {
  Node node;
  node.tree.folder("/sys/devices/pci0000:5d/0000:5e:00.0");
  node.tree.link("/sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:5d/0000:5e:00.0");
  (void)node.look(1);
  const auto events =
      node.look(1, {"mlx5_core 0000:5e:00.0: poll_health: health compromised - reached miss count"});
  ASSERT_EQ(namesOf(events), "begin nic-firmware");
  EXPECT_EQ(events[0].latch.port, "mlx5_0/1");
  EXPECT_EQ(events[0].bdf, "0000:5e:00.0");
  EXPECT_EQ(namesOf(node.look(1, {"NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."})),
            "begin gpu-lost");
  EXPECT_EQ(namesOf(node.look(1, {"usb 1-1: new device"})), "");
  // A program's mistake, whose process has the number of a broken link.
  EXPECT_EQ(namesOf(node.look(1, {"NVRM: Xid (PCI:0000:17:00): 31, pid=21074, name=python"})), "");
  EXPECT_EQ(namesOf(node.look(1, {"NVRM: Xid (PCI:0000:17:00): 74, pid=9, NVLink error"})),
            "begin nvlink-error");
  EXPECT_EQ(namesOf(node.look(1, {"NVRM: Xid (PCI:0000:17:00): 120, GSP task timeout"})), "begin gpu-gsp");
  EXPECT_EQ(namesOf(node.look(1, {"NVRM: Xid (PCI:0000:17:00): 790, begins as another number"})), "");
}

// An Xid that the watch raises is explained in a job's log by the row that the watch has its words of.
TEST(Watch, AnXidMeansTheSameInTheLogsOfAJob) {
  Node node;
  (void)node.look(1);
  for (int number = 1; number < 200; ++number) {
    const std::string line = "NVRM: Xid (PCI:0000:17:00): " + std::to_string(number) + ", pid=7";
    const auto explained = explainOther(line);
    ASSERT_TRUE(explained) << line;
    EXPECT_EQ(explained->check, "gpu-fault") << line;
    node.state.latches.clear();
    for (const WatchEvent& event : node.look(1, {line})) EXPECT_EQ(event.rule->what, explained->what) << line;
    const bool raised = number == 74 || number == 79 || number == 119 || number == 120;
    EXPECT_EQ(!node.state.latches.empty(), raised) << line;
  }
}

TEST(Watch, WhatWasWrongBeforeARebootEndsWithTheFirstGoodLook) {
  Node node;
  (void)node.look(1);
  node.up(false);
  (void)node.look(1);
  ASSERT_EQ(namesOf(node.look(40)), "begin port-down");
  node.tree.file("/proc/sys/kernel/random/boot_id", "boot-2\n");
  node.count("counters/link_downed", 0);
  EXPECT_EQ(namesOf(node.look(60)), "");  // it is still down
  EXPECT_HAS(healthOf(node.state, node.now).text, "before the reboot");
  node.up(true);
  EXPECT_EQ(namesOf(node.look(1)), "end port-down");
}

TEST(Watch, AClockThatIsSetBackEndsAndBeginsNothing) {
  Node node;
  (void)node.look(1);
  node.up(false);
  (void)node.look(1);
  (void)node.look(40);
  EXPECT_EQ(namesOf(node.look(-100'000)), "");
  EXPECT_EQ(node.state.latches.size(), 1U);
  node.up(true);
  (void)node.look(1);
  EXPECT_EQ(namesOf(node.look(300)), "end port-down");
}

TEST(Watch, ANodeThatNobodyWatchesIsNotFine) {
  Node node;
  (void)node.look(1);
  EXPECT_TRUE(healthOf(node.state, node.now + kWatchSilence).watched);
  const Health health = healthOf(node.state, node.now + kWatchSilence + 1);
  EXPECT_FALSE(health.watched);
  EXPECT_HAS(health.text, "nobody watches");
  EXPECT_FALSE(healthOf({}, node.now).watched);
}

// Slurm's adapter takes a drain back where the node is fine.
TEST(Watch, ANodeWithoutAnActivePortIsNotKnownToBeFine) {
  Node node;
  node.up(false);
  (void)node.look(1);
  Health health = healthOf(node.state, node.now);
  EXPECT_TRUE(health.watched);
  EXPECT_FALSE(health.known);
  EXPECT_HAS(health.text, "no active RDMA port");
  node.up(true);
  (void)node.look(1);
  EXPECT_TRUE(healthOf(node.state, node.now).known);
}

// A week: flaps, resets, reboots, a device that vanishes; the watch is killed again and again, and reads what
// it has written.
TEST(Watch, InAWeekNoFlapIsMissedAndTheStateStaysSmall) {
  Node node;
  std::mt19937 random(7);
  int64_t kernel = 3, flaps = 0;
  std::map<std::string, int> open;
  (void)node.look(10);
  for (int look = 0; look < 7 * 24 * 360; ++look) {  // one each ten seconds
    if (random() % 6 == 0) {
      const int64_t more = 1 + static_cast<int64_t>(random() % 2);
      kernel += more;
      flaps += more;
      node.count("counters/link_downed", kernel);
    }
    const bool reboots = random() % 20'000 == 0;
    if (reboots) {
      node.tree.file("/proc/sys/kernel/random/boot_id", "boot " + std::to_string(look) + "\n");
      kernel = 0;
      node.count("counters/link_downed", 0);
    }
    for (const WatchEvent& event : node.look(10)) {
      int& count = open[event.rule->check];
      if (event.phase == EventPhase::kBegin) ASSERT_EQ(count++, 0) << event.rule->check;
      if (event.phase == EventPhase::kEnd) ASSERT_EQ(count--, 1) << event.rule->check;
    }
    if (reboots) flaps = node.state.ports[0].flaps;  // of the seconds of a reboot the kernel knows nothing
    if (random() % 500 == 0) {                       // killed, and started again
      const std::string file = watchStateJson(node.state);
      ASSERT_LT(file.size(), 16384U);
      Outcome<WatchState> read = readWatchState(file);
      ASSERT_TRUE(read.ok()) << read.error();
      ASSERT_EQ(watchStateJson(*read), file);
      node.state = std::move(*read);
    }
  }
  EXPECT_EQ(node.state.ports[0].flaps, flaps);
  EXPECT_GT(flaps, 10'000);
}

TEST(Watch, AStateThatIsCutAnywhereIsRefusedNotTakenInPart) {
  Node node;
  (void)node.look(1);
  node.up(false);
  (void)node.look(1);
  (void)node.look(40);
  const std::string whole = watchStateJson(node.state);
  for (std::size_t size = 0; size + 2 < whole.size(); ++size)
    ASSERT_FALSE(readWatchState(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(readWatchState("{\"schema\": 99}").ok());
  EXPECT_FALSE(readWatchState("{\"schema\": 1, \"ports\": 7}").ok());
}

TEST(Watch, PrometheusGetsEachMetricWithItsHeadOnce) {
  Node node;
  (void)node.look(1);
  node.count("counters/link_downed", 9);
  (void)node.look(10);
  const std::string text = watchPrometheus(node.state, node.now);
  EXPECT_HAS(text, "railwise_watch_port_flaps_total{nic=\"mlx5_0\",port=\"1\"} 6\n");
  EXPECT_HAS(
      text,
      "railwise_watch_finding{check=\"port-flapping\",severity=\"error\",nic=\"mlx5_0\",port=\"1\"} 1\n");
  std::multiset<std::string> heads;
  for (std::size_t at = text.find("# TYPE "); at != std::string::npos; at = text.find("# TYPE ", at + 1))
    heads.insert(text.substr(at + 7, text.find(' ', at + 7) - at - 7));
  EXPECT_EQ(std::set<std::string>(heads.begin(), heads.end()).size(), heads.size());
}

// A state comes from a file, and a name in it may be anything.
TEST(Watch, PrometheusGetsNamesEscaped) {
  WatchState state;
  state.ports.push_back({.name = "a\"b\\c/1\n2", .active = true, .was_active = true, .flaps = 4});
  state.latches.push_back({.check = "port-down", .port = state.ports[0].name, .since = kStart});
  const std::string text = watchPrometheus(state, kStart);
  const std::string labels = R"(nic="a\"b\\c",port="1\n2")";
  for (const std::string& line : {"port_active{" + labels + "} 1\n", "port_flaps_total{" + labels + "} 4\n",
                                  "finding{check=\"port-down\",severity=\"error\"," + labels + "} 1\n"})
    EXPECT_HAS(text, "railwise_watch_" + line) << line;
}

// events.jsonl and --json are read line by line: each line is an event, and no line is empty.
TEST(Watch, EveryLineOfTheEventsIsAnEvent) {
  Node node;
  (void)node.look(1);
  node.up(false);
  std::vector<WatchEvent> events = node.look(1, {"Out of memory: Killed process 7 (\"a\nb\")"});
  for (WatchEvent& event : node.look(40)) events.push_back(std::move(event));
  ASSERT_GE(events.size(), 2U);
  std::string text;
  for (const WatchEvent& event : events) text += watchEventJson(event, "node17");
  std::istringstream lines(text);
  std::size_t read = 0;
  for (std::string line; std::getline(lines, line); ++read)
    EXPECT_HAS(line, "\"check\": \"" + std::string(events.at(read).rule->check));
  EXPECT_EQ(read, events.size());
}

// A look of the node that compares it with a manifest, a minute later.
std::vector<WatchEvent> compare(Node& node, ManifestDifferences differences) {
  node.now += 60;
  Look look = lookAt(node.tree, node.now, true);
  look.manifest = std::move(differences);
  return takeLook(node.state, look);
}

TEST(Watch, WhatIsNotAsTheManifestSaysBeginsAndEnds) {
  Node node;
  node.look(10);
  const ManifestDifferences both = {{"devices", {"ports: expected 8, found 7"}},
                                    {"versions", {"kernel: expected 6, found 7"}}};
  EXPECT_EQ(namesOf(compare(node, both)), "begin manifest-versions");
  const auto begun = compare(node, both);
  EXPECT_EQ(namesOf(begun), "begin manifest-devices");
  EXPECT_EQ(begun.at(0).latch.seen, "ports: expected 8, found 7");
  EXPECT_EQ(namesOf(compare(node, {{"devices", {"ports: expected 8, found 7"}}})), "");
  std::string later;
  for (int i = 0; i < 7; ++i) later += namesOf(compare(node, {})) + " ";
  EXPECT_HAS(later, "end manifest-devices");
  EXPECT_HAS(later, "end manifest-versions");
}

// A flap that a comparison happens to see is no reason to drain a node.
TEST(Watch, ADeviceMustBeMissingInTwoComparisonsInARow) {
  Node node;
  node.look(10);
  const std::string seven = "ports: expected 8, found 7", six = "ports: expected 8, found 6";
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(namesOf(compare(node, {{"devices", {seven}}})), "");
    for (int second = 0; second < 3; ++second) EXPECT_EQ(namesOf(node.look(1)), "");  // without a comparison
    EXPECT_EQ(
        namesOf(compare(node, i % 2 == 0 ? ManifestDifferences() : ManifestDifferences{{"devices", {six}}})),
        "");
  }
  const std::string gpus = "gpu.models: expected 8, found 7";
  EXPECT_EQ(namesOf(compare(node, {{"devices", {seven, gpus}}})), "");
  const auto begun = compare(node, {{"devices", {six, gpus}}});  // one lasts while another comes and goes
  ASSERT_EQ(namesOf(begun), "begin manifest-devices");
  EXPECT_EQ(begun.at(0).latch.seen, gpus);
}

TEST(Watch, EachRuleHasASeverityAnActionAndAFix) {
  std::set<std::string> checks;
  for (const WatchRule& rule : watchRules()) {
    checks.insert(rule.check);
    EXPECT_NE(std::string(rule.what), "") << rule.check;
    EXPECT_NE(std::string(rule.fix), "") << rule.check;
    EXPECT_TRUE(std::string(rule.action) == "look" || std::string(rule.action) == "drain") << rule.check;
    EXPECT_EQ(ruleOf(rule.check)->severity, rule.severity) << rule.check;
  }
  EXPECT_GT(checks.size(), 20U);
  EXPECT_EQ(ruleOf("no-such-rule"), nullptr);
}

}  // namespace
}  // namespace railwise::doctor
