#include "perf/job/bootstrap.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "tests/ok.h"

namespace railwise::cli {
namespace {

using std::chrono::milliseconds;

// The ranks of a job as threads; each sees what its on_failure said.
class JobInThreads {
 public:
  explicit JobInThreads(int size) : said_(static_cast<std::size_t>(size)), size_(size) {
    const uint8_t loopback[] = {127, 0, 0, 1};
    auto listener = Socket::listen(SocketAddress(AF_INET, loopback, 0, 0), 64);
    EXPECT_OK(listener);
    listener_ = std::move(*listener);
    address_ = listener_.localAddress();
  }

  BootstrapOptions options(int rank) {
    BootstrapOptions options;
    options.rank = rank;
    options.size = size_;
    options.address = address_;
    if (rank == 0) options.listener = std::move(listener_);
    options.secret = "secret";
    options.agreement = "options";
    options.timeout = std::chrono::seconds(20);
    options.on_failure = [this, rank](const std::string& text) {
      const std::lock_guard lock(mutex_);
      said_[static_cast<std::size_t>(rank)] = text;
      changed_.notify_all();
    };
    return options;
  }

  // Runs `body` in one thread per rank with that rank's Bootstrap.
  void run(const std::function<void(Bootstrap&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([this, rank, &body] {
        auto bootstrap = Bootstrap::join(options(rank));
        ASSERT_OK(bootstrap);
        body(**bootstrap);
      });
    }
    for (auto& thread : threads) thread.join();
  }

  std::string waitForWord(int rank) {
    std::unique_lock lock(mutex_);
    auto& text = said_[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !text.empty(); }));
    return text;
  }
  std::string word(int rank) {
    const std::lock_guard lock(mutex_);
    return said_[static_cast<std::size_t>(rank)];
  }

  SocketAddress address_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> said_;
  Socket listener_;
  const int size_;
};

Bytes blockOf(int from, int to) { return toBytes(std::to_string(from) + ">" + std::to_string(to)); }

void joinAndLeave(BootstrapOptions options) {
  auto bootstrap = Bootstrap::join(std::move(options));
  ASSERT_OK(bootstrap);
  EXPECT_OK((*bootstrap)->leave());
}

TEST(Bootstrap, ExchangesGathersAndLeaves) {
  constexpr int kRanks = 4;
  JobInThreads job(kRanks);
  job.run([&](Bootstrap& bootstrap) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<Bytes> blocks;
      for (int to = 0; to < kRanks; ++to) blocks.push_back(blockOf(bootstrap.rank(), to));
      auto got = bootstrap.exchange(blocks);
      ASSERT_OK(got);
      for (int from = 0; from < kRanks; ++from)
        EXPECT_EQ((*got)[static_cast<std::size_t>(from)], blockOf(from, bootstrap.rank()));
      auto all = bootstrap.allGather(blockOf(bootstrap.rank(), 9));
      ASSERT_OK(all);
      for (int from = 0; from < kRanks; ++from)
        EXPECT_EQ((*all)[static_cast<std::size_t>(from)], blockOf(from, 9));
      EXPECT_OK(bootstrap.barrier());
    }
    EXPECT_EQ(bootstrap.peer(2).pid, getpid());
    EXPECT_OK(bootstrap.leave());
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.word(rank), "");
}

TEST(Bootstrap, OneRankAloneWorks) {
  JobInThreads job(1);
  job.run([](Bootstrap& bootstrap) {
    auto all = bootstrap.allGather(blockOf(0, 0));
    ASSERT_OK(all);
    EXPECT_EQ((*all)[0], blockOf(0, 0));
    EXPECT_OK(bootstrap.barrier());
    EXPECT_OK(bootstrap.leave());
  });
}

TEST(Bootstrap, LargeBlocksPass) {
  JobInThreads job(3);
  const Bytes large(std::size_t{2} << 20, std::byte{7});
  job.run([&](Bootstrap& bootstrap) {
    auto all = bootstrap.allGather(large);
    ASSERT_OK(all);
    EXPECT_EQ((*all)[2], large);
    EXPECT_OK(bootstrap.leave());
  });
}

// Rank `victim` leaves without a word: its sockets close as those of a killed process.
void expectGone(int victim) {
  JobInThreads job(3);
  job.run([&](Bootstrap& bootstrap) {
    EXPECT_OK(bootstrap.barrier());
    if (bootstrap.rank() == victim) return;  // destroyed here
    EXPECT_FALSE(bootstrap.barrier().ok());
    const std::string text = job.waitForWord(bootstrap.rank());
    const std::string expected =
        "rank " + std::to_string(victim) + " (pid " + std::to_string(getpid()) + " on host ";
    EXPECT_EQ(text.substr(0, expected.size()), expected);
    EXPECT_HAS(text, " is gone");
  });
}
TEST(Bootstrap, ALostRankIsNamedByAll) { expectGone(2); }
TEST(Bootstrap, ALostRankZeroIsNamedByAll) { expectGone(0); }

void expectFailure(int culprit) {
  JobInThreads job(3);
  job.run([&](Bootstrap& bootstrap) {
    EXPECT_OK(bootstrap.barrier());
    if (bootstrap.rank() == culprit) {
      bootstrap.fail("isend failed");
    } else {
      EXPECT_FALSE(bootstrap.barrier().ok());
    }
    const std::string text = job.waitForWord(bootstrap.rank());
    if (bootstrap.rank() == culprit) {
      EXPECT_EQ(text, "isend failed");
    } else {
      EXPECT_EQ(text.find("rank " + std::to_string(culprit)), 0u) << text;
      EXPECT_HAS(text, "failed: isend failed");
    }
  });
}
TEST(Bootstrap, AFailureIsToldToAll) { expectFailure(1); }
TEST(Bootstrap, AFailureOfRankZeroIsToldToAll) { expectFailure(0); }

TEST(Bootstrap, StrangersAreIgnored) {
  JobInThreads job(2);
  auto rank_zero = job.options(0);
  std::thread server([&] { joinAndLeave(std::move(rank_zero)); });
  // Says nothing, says nonsense, announces 4 GiB, knows another secret.
  std::vector<Socket> strangers;
  const std::string nonsense(64, 'G');
  for (const std::string& greeting : {std::string(), nonsense}) {
    auto socket = Socket::connect(job.address_);
    ASSERT_OK(socket);
    pollfd writable = {.fd = socket->fd(), .events = POLLOUT, .revents = 0};
    ASSERT_EQ(poll(&writable, 1, 5'000), 1);
    ASSERT_EQ(write(socket->fd(), greeting.data(), greeting.size()), static_cast<ssize_t>(greeting.size()));
    strangers.push_back(std::move(*socket));
  }
  auto other_job = job.options(1);
  other_job.secret = "another";
  other_job.timeout = milliseconds(300);
  const auto refused = Bootstrap::join(std::move(other_job));
  ASSERT_FALSE(refused.ok());
  // "is not there", or on a busy machine "still waits"
  EXPECT_EQ(refused.error().find("rank 0 at "), 0U) << refused.error();
  joinAndLeave(job.options(1));
  server.join();
}

// More of them than rank 0 listens to at once, and they stay.
TEST(Bootstrap, SilentStrangersMakeRoom) {
  JobInThreads job(2);
  auto rank_zero = job.options(0);
  std::thread server([&] { joinAndLeave(std::move(rank_zero)); });
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) {
    auto socket = Socket::connect(job.address_);
    ASSERT_OK(socket);
    strangers.push_back(std::move(*socket));
  }
  auto rank_one = job.options(1);
  rank_one.timeout = std::chrono::seconds(8);  // less than a stranger may be silent
  joinAndLeave(std::move(rank_one));
  server.join();
}

std::pair<std::string, std::string> errorsOfJoin(const std::function<void(BootstrapOptions&)>& change) {
  JobInThreads job(2);
  std::string zero_error;
  auto rank_zero = job.options(0);
  std::thread server([&] { zero_error = Bootstrap::join(std::move(rank_zero)).error(); });
  auto rank_one = job.options(1);
  change(rank_one);
  const auto one = Bootstrap::join(std::move(rank_one));
  server.join();
  return {zero_error, one.error()};
}

TEST(Bootstrap, OtherOptionsAreRefusedOnBothSides) {
  const auto [zero, one] = errorsOfJoin([](BootstrapOptions& options) { options.agreement = "others"; });
  EXPECT_HAS(zero, "was started with other options than rank 0: 'others', rank 0: 'options'");
  EXPECT_EQ(zero, one);
}

TEST(Bootstrap, AnotherSizeIsRefusedOnBothSides) {
  const auto [zero, one] = errorsOfJoin([](BootstrapOptions& options) { options.size = 3; });
  EXPECT_HAS(zero, "says that the job has 3 ranks, rank 0 says 2");
  EXPECT_EQ(zero, one);
}

TEST(Bootstrap, ARefusedStrangerNeedNotEndTheJob) {
  JobInThreads job(2);
  std::string refused;
  bool joined = false;
  auto rank_zero = job.options(0);
  rank_zero.on_refused = [&](const std::string& why) { refused = why; };
  std::thread server([&] {
    auto bootstrap = Bootstrap::join(std::move(rank_zero));
    joined = bootstrap.ok() && (*bootstrap)->leave().ok();
  });
  auto stranger = job.options(1);
  stranger.agreement = "others";
  EXPECT_FALSE(Bootstrap::join(std::move(stranger)).ok());
  joinAndLeave(job.options(1));
  server.join();
  EXPECT_TRUE(joined);
  EXPECT_HAS(refused, "was started with other options");
}

TEST(Bootstrap, RankZeroSaysOnceThatItWaits) {
  JobInThreads job(2);
  std::promise<int> missing;
  auto rank_zero = job.options(0);
  rank_zero.on_waiting = [&](int count) { missing.set_value(count); };  // throws if it is called twice
  std::thread server([&] { joinAndLeave(std::move(rank_zero)); });
  auto said = missing.get_future();
  ASSERT_EQ(said.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(said.get(), 1);
  joinAndLeave(job.options(1));
  server.join();
}

TEST(Bootstrap, MissingRanksAreNamed) {
  JobInThreads job(3);
  auto options = job.options(0);
  options.timeout = milliseconds(200);
  const std::string error = Bootstrap::join(std::move(options)).error();
  EXPECT_EQ(error.find("rank 1, 2 did not connect to 127.0.0.1:"), 0u) << error;
}

TEST(Bootstrap, AJobWithoutProgressEndsAndSaysWhatItWaitsFor) {
  JobInThreads job(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&job, rank] {
      auto options = job.options(rank);
      options.timeout = milliseconds(500);
      options.doing = [rank] { return "waiting for thing " + std::to_string(rank); };
      auto bootstrap = Bootstrap::join(std::move(options));
      ASSERT_OK(bootstrap);
      const std::string text = job.waitForWord(rank);
      EXPECT_HAS(text, "no progress for ");
      EXPECT_HAS(text, "waiting for thing " + std::to_string(rank));
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Bootstrap, OneRanksProgressKeepsTheJobAlive) {
  JobInThreads job(2);
  const auto timeout = milliseconds(400);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&job, rank, timeout] {
      auto options = job.options(rank);
      options.timeout = timeout;
      if (rank == 1) {  // moves whenever asked
        auto ticks = std::make_shared<std::atomic<uint64_t>>(0);
        options.progress = [ticks] { return ++*ticks; };
      }
      auto bootstrap = Bootstrap::join(std::move(options));
      ASSERT_OK(bootstrap);
      // Rank 0 waits three timeouts for the block that rank 1 sends late.
      if (rank == 1) std::this_thread::sleep_for(3 * timeout);
      EXPECT_OK((*bootstrap)->barrier()) << job.word(rank);
      EXPECT_OK((*bootstrap)->leave());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(job.word(0), "");
}

TEST(Wire, ByteReaderStopsAtTheEnd) {
  const Bytes bytes = ByteWriter().u32(7).u64(1ull << 40).text("abc").take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u32(), 7u);
  EXPECT_EQ(reader.u64(), 1ull << 40);
  EXPECT_EQ(reader.text(), "abc");
  EXPECT_TRUE(reader.ok() && reader.atEnd());
  EXPECT_EQ(reader.u32(), 0u);
  EXPECT_FALSE(reader.ok());
  const Bytes lying = ByteWriter().u32(1000).take();
  ByteReader liar(lying);
  EXPECT_EQ(liar.text(), "");
  EXPECT_FALSE(liar.ok());
}

TEST(ResolveAddress, TakesHostAndPort) {
  const auto v4 = resolveAddress("127.0.0.1:80");
  ASSERT_OK(v4);
  EXPECT_EQ(v4->text(), "127.0.0.1:80");
  const auto v6 = resolveAddress("[::1]:80");
  ASSERT_OK(v6);
  EXPECT_EQ(v6->text(), "[::1]:80");
  for (const char* text : {"host", "host:", ":5", "host:0", "host:65536", "host:x"})
    EXPECT_FALSE(resolveAddress(text).ok()) << text;
}

}  // namespace
}  // namespace railwise::cli
