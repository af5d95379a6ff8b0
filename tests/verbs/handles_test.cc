#include "verbs/handles.h"

#include <gtest/gtest.h>

namespace railwise::verbs {
namespace {

TEST(MakeOrExplain, TellsTheReasonOfTheCallAndNoOther) {
  int object = 0;
  int error = ENOMEM;
  errno = EAGAIN;  // of some earlier call
  const auto refuse = [](int reason) {
    return [reason]() -> int* {
      if (reason != 0) errno = reason;
      return nullptr;
    };
  };
  EXPECT_EQ(makeOrExplain(refuse(ENOSPC), error), nullptr);
  EXPECT_EQ(error, ENOSPC);
  errno = EAGAIN;
  EXPECT_EQ(makeOrExplain(refuse(0), error), nullptr);
  EXPECT_EQ(error, EIO) << "the driver gave none";
  EXPECT_EQ(makeOrExplain([&] { return &object; }, error), &object);
  EXPECT_EQ(error, 0);
}

}  // namespace
}  // namespace railwise::verbs
