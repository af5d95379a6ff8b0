// Mistakes that a test build plants in this room, one at a time, to show that the tests find them
// (tests/net/rma/mistakes.cc). Those that the protocol can have are mutations of tests/model/rma.pml, too. In
// every other build no mistake is planted, and isPlanted() is false when it is compiled.
#pragma once

#include <cstdint>

namespace railwise::net {

enum class Mistake : uint8_t {
  kNone,
  kSignalBeforeMarks,     // a signal does not wait for the marks of other rails (mutation 3)
  kMarksOfOldEpoch,       // marks of an old epoch count in the new one (mutation 9)
  kForgetsAppliedSignal,  // the target says one signal too few, and takes it twice (mutation 10)
  kTakesOldEpoch,         // a report of another epoch is taken
  kRepeatsWhatIsCertain,  // the writer repeats what the target has applied (mutation 2)
  kRepeatsTooLittle,      // the writer does not repeat what nobody has confirmed
  kDoneOutOfOrder,        // a request is done as soon as its own parts are acknowledged (mutation 5)
  kIgnoresCredit,         // more reports are under way than the target has receives for
  kNoFlushOfOthers,       // a signal does not flush the other rail that carried its data (mutation 4)
  kNoFlushOfLeft,         // rails that are left are not flushed (mutation 11)
  kAbsoluteThoughReset,   // a slot that may be reset is written as if nobody reset it
};

#ifdef RAILWISE_PLANTS_MISTAKES
extern Mistake planted;
inline bool isPlanted(Mistake mistake) { return planted == mistake; }
#else
constexpr bool isPlanted(Mistake /*mistake*/) { return false; }
#endif

}  // namespace railwise::net
