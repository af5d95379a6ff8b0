// What is checked, by name. Every rank runs the same checks in the same order.
#pragma once

#include "communicator.h"

struct Check {
  const char* name;
  // `main` lives as long as the job. Null: the NCCL that the program was compiled for has nothing to check.
  void (*run)(const Communicator& main);
  bool by_default;
};

extern const Check kChecks[];
extern const std::size_t kCheckCount;

// A communicator is made, by init, split or shrink, used, and ended, finalised or aborted: what of these
// depends on `round`. Returns how many elements were wrong.
std::size_t makeUseAndEnd(const Communicator& main, std::size_t round);

// In files of their own.
void checkCollectives(const Communicator& main);
void checkTypes(const Communicator& main);
void checkGraph(const Communicator& main);
void checkGraphsOfSendAndReceive(const Communicator& main);
void checkRegisteredBuffers(const Communicator& main);
void checkSeveralCommunicators(const Communicator& main);
void checkSideBySide(const Communicator& main);
void checkSplit(const Communicator& main);
void checkShrink(const Communicator& main);
void checkInitAgain(const Communicator& main);
void checkFinalize(const Communicator& main);
void checkAbort(const Communicator& main);
void checkTraffic(const Communicator& main);
void checkRmaTraffic(const Communicator& main);
void checkGinTraffic(const Communicator& main);
void checkZeroCtaTraffic(const Communicator& main);
void checkWindows(const Communicator& main);
void checkZeroCta(const Communicator& main);
void checkRma(const Communicator& main);
void checkLargeRma(const Communicator& main);
void checkGraphOfRma(const Communicator& main);
void checkRmaOfChildren(const Communicator& main);
void checkEndOfRma(const Communicator& main);
void checkGinPut(const Communicator& main);
void checkGinOrder(const Communicator& main);
void checkGinCounters(const Communicator& main);
void checkGinFlush(const Communicator& main);
void checkGinGet(const Communicator& main);
void checkGinManyWriters(const Communicator& main);
void checkGinReset(const Communicator& main);
void checkGinContexts(const Communicator& main);
void checkGinQueue(const Communicator& main);
void checkGinValues(const Communicator& main);
