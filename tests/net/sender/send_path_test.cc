// Which path a message takes, by the limits of its epoch.
#include "net/sender/send_path.h"

#include <gtest/gtest.h>

#include "net/paths/stripe.h"

namespace railwise::net {
namespace {

// One lane of a device that writes 220 bytes inline.
SendFacts oneLane() {
  SendFacts facts;
  facts.inline_bytes = 220;
  facts.max_request_bytes = 1U << 30;
  facts.max_message_bytes = 1U << 30;
  return facts;
}

TEST(SendPath, ASingleMessageTakesThePathOfItsSize) {
  const SendLimits limits = sendLimits(oneLane());
  EXPECT_EQ(limits.pathOf(1), SendPath::kInline);
  EXPECT_EQ(limits.pathOf(220), SendPath::kInline);
  EXPECT_EQ(limits.pathOf(221), SendPath::kUnsignalled);
  EXPECT_EQ(limits.pathOf(32768), SendPath::kUnsignalled);
  EXPECT_EQ(limits.pathOf(32769), SendPath::kSignalled);
  EXPECT_EQ(limits.pathOf((32U << 20) - 1), SendPath::kSignalled);
  EXPECT_EQ(limits.pathOf(32U << 20), SendPath::kSegments) << "the immediate has 25 bits for the size";
}

TEST(SendPath, AnEmptyMessageGoesInASegmentBecauseItHasNoWrite) {
  EXPECT_EQ(sendLimits(oneLane()).pathOf(0), SendPath::kSegments);
  EXPECT_EQ(sendLimits(oneLane()).pathOfGroup(0, 2, true), SendPath::kSegments);
}

TEST(SendPath, AboveTheThresholdOfAdaptiveRoutingTheImmediateGoesApart) {
  SendFacts facts = oneLane();
  facts.adaptive_routing_bytes = 8192;
  const SendLimits limits = sendLimits(facts);
  EXPECT_EQ(limits.pathOf(8192), SendPath::kUnsignalled);
  EXPECT_EQ(limits.pathOf(8193), SendPath::kThenImmediate);
  EXPECT_EQ(limits.pathOfGroup(4097, 2, false), SendPath::kBatch) << "with one request more";
}

TEST(SendPath, AGroupIsPackedWhereItFitsOneCacheLineOfHostMemory) {
  const SendLimits limits = sendLimits(oneLane());
  EXPECT_EQ(limits.pathOfGroup(8, 8, true), SendPath::kPacked);
  EXPECT_EQ(limits.pathOfGroup(8, 8, false), SendPath::kBatch);
  EXPECT_EQ(limits.pathOfGroup(9, 8, true), SendPath::kBatch);
  EXPECT_EQ(limits.pathOfGroup(limits.whole / 8, 8, true), SendPath::kBatch);
  EXPECT_EQ(limits.pathOfGroup(limits.whole / 8 + 1, 8, true), SendPath::kSegments);
  EXPECT_EQ(limits.pathOfGroup(0, 8, true), SendPath::kSegments);
}

TEST(SendPath, ADeviceThatWritesLittleInlinePacksNothingLarger) {
  SendFacts facts = oneLane();
  facts.inline_bytes = 32;
  const SendLimits limits = sendLimits(facts);
  EXPECT_EQ(limits.pathOf(33), SendPath::kUnsignalled);
  EXPECT_EQ(limits.pathOfGroup(8, 4, true), SendPath::kPacked);
  EXPECT_EQ(limits.pathOfGroup(8, 5, true), SendPath::kBatch);
}

TEST(SendPath, OverSeveralLanesOnlyWhatIsSmallGoesAsAWhole) {
  SendFacts facts = oneLane();
  facts.lanes = 2;
  const SendLimits limits = sendLimits(facts);
  EXPECT_EQ(limits.pathOf(8), SendPath::kInline);
  EXPECT_EQ(limits.pathOf(kMinSegmentBytes - 1), SendPath::kUnsignalled);
  EXPECT_EQ(limits.pathOf(kMinSegmentBytes), SendPath::kSegments);
  EXPECT_EQ(limits.pathOfGroup(8, 2, true), SendPath::kPacked);
  EXPECT_EQ(limits.pathOfGroup(kMinSegmentBytes / 2, 2, true), SendPath::kSegments);
}

TEST(SendPath, NothingGoesAsAWholeOutOfOrderOrOverOtherRails) {
  const auto segmentsOnly = [](const SendFacts& facts) {
    const SendLimits limits = sendLimits(facts);
    return limits.pathOf(1) == SendPath::kSegments && limits.pathOf(65536) == SendPath::kSegments &&
           limits.pathOfGroup(8, 2, true) == SendPath::kSegments;
  };
  SendFacts facts = oneLane();
  EXPECT_FALSE(segmentsOnly(facts));
  facts.has_immediates = false;
  EXPECT_TRUE(segmentsOnly(facts));
  facts = oneLane();
  facts.in_order = false;
  EXPECT_TRUE(segmentsOnly(facts));
  facts = oneLane();
  facts.whole = false;
  EXPECT_TRUE(segmentsOnly(facts));
}

TEST(SendPath, LimitsOfTheDeviceHold) {
  SendFacts facts = oneLane();
  facts.max_request_bytes = 4096;
  EXPECT_EQ(sendLimits(facts).pathOf(4096), SendPath::kUnsignalled);
  EXPECT_EQ(sendLimits(facts).pathOf(4097), SendPath::kSegments);
  facts.max_message_bytes = 1024;
  EXPECT_EQ(sendLimits(facts).pathOf(1025), SendPath::kSegments);
  EXPECT_EQ(sendLimits(facts).message, 1024U);
}

TEST(SendPath, TheTextNamesEachLimitOnce) {
  EXPECT_EQ(
      pathsText(sendLimits(oneLane()), 1),
      "..220 B inline, ..32 KiB one write, ..32 MiB one signalled write, larger: segments, each signalled");
  SendFacts facts = oneLane();
  facts.adaptive_routing_bytes = 8192;
  EXPECT_EQ(
      pathsText(sendLimits(facts), 1),
      "..220 B inline, ..8 KiB one write, ..32 MiB one write and its immediate apart, larger: segments, "
      "each signalled");
  facts = oneLane();
  facts.lanes = 2;
  EXPECT_EQ(pathsText(sendLimits(facts), 2),
            "..220 B inline, ..16 KiB one write, larger: segments over 2 lanes");
  facts.whole = false;
  EXPECT_EQ(pathsText(sendLimits(facts), 2), "all sizes: segments over 2 lanes");
}

}  // namespace
}  // namespace railwise::net
