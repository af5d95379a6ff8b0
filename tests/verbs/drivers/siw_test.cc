#include "verbs/drivers/siw.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <csignal>

namespace railwise::verbs {
namespace {

int g_posts = 0;

// As the kernel does it: for the thread that posts.
int postOnBrokenConnection(ibv_qp*, ibv_send_wr*, ibv_send_wr**) {
  ++g_posts;
  pthread_kill(pthread_self(), SIGPIPE);
  errno = ENOTCONN;
  return -1;
}

int postTo(ibv_context& context) { return context.ops.post_send(nullptr, nullptr, nullptr); }

class Siw : public testing::Test {
 protected:
  Siw() {
    attributes_.vendor_id = 0x626d74;  // SIW_VENDOR_ID
    context_.ops.post_send = postOnBrokenConnection;
    g_posts = 0;
  }
  static bool blocked() {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, SIGPIPE) == 1;
  }

  ibv_context context_ = {};
  ibv_device_attr attributes_ = {};
};
using SiwDeathTest = Siw;

TEST_F(Siw, PostingRaisesNoSignal) {
  keepSignalsFrom(context_, attributes_);
  keepSignalsFrom(context_, attributes_);
  EXPECT_EQ(postTo(context_), -1);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_EQ(postTo(context_), -1);
  EXPECT_EQ(g_posts, 2);
  EXPECT_FALSE(blocked());
}

TEST_F(Siw, ASignalOfTheJobStays) {
  keepSignalsFrom(context_, attributes_);
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  pthread_kill(pthread_self(), SIGPIPE);
  EXPECT_EQ(postTo(context_), -1);
  EXPECT_TRUE(blocked());
  int number = 0;
  EXPECT_EQ(sigwait(&pipe, &number), 0);
  EXPECT_EQ(number, SIGPIPE);
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

TEST_F(SiwDeathTest, OtherDevicesStayAsTheyAre) {
  attributes_.vendor_id = 0x02c9;
  keepSignalsFrom(context_, attributes_);
  EXPECT_EXIT(postTo(context_), testing::KilledBySignal(SIGPIPE), "");
}

}  // namespace
}  // namespace railwise::verbs
