// railwise metrics from outside: what it prints, writes and serves, and mistakes on the command line.
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "process.h"
#include "record/held_record.h"
#include "record/record_builder.h"
#include "scratch.h"
#include "tests/ok.h"
#include "wait.h"

namespace railwise::cli {
namespace {

using test::HeldRecord;
using test::RecordBuilder;
using test::Scratch;
using Args = std::vector<std::string>;

ProcessResult metrics(Args args) {
  args.insert(args.begin(), "metrics");
  return runProcess(RAILWISE_CLI, args);
}

std::string contentOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A folder with the record of a living process that has sent 17 bytes over mlx5_0.
class Folder {
 public:
  Folder() : held_(record().write(scratch_.path())) {}
  std::string path() const { return scratch_.path(); }
  std::string path(const std::string& name) const { return scratch_.path(name); }
  const Scratch& scratch() const { return scratch_; }
  void kill9() { held_.kill9(); }

 private:
  static RecordBuilder record() {
    RecordBuilder record;
    record.rail("mlx5_0").counters.totals.bytes_sent = 17;
    return record;
  }
  Scratch scratch_;
  HeldRecord held_;
};

constexpr const char* kSent =
    R"(railwise_rail_sent_bytes_total{pid="4242",rank="3",program="all_reduce_perf",device="mlx5_0",port="1"} 17)";

TEST(MetricsCommand, PrintsMetrics) {
  const Folder folder;
  const ProcessResult result = succeeded(metrics({"--dir", folder.path()}));
  EXPECT_HAS(result.out, kSent);
  EXPECT_EQ(result.err, "");
}

TEST(MetricsCommand, LeavesOutProcessesThatAreGoneUnlessTheyAreNamed) {
  Folder folder;
  folder.kill9();
  EXPECT_LACKS(metrics({"--dir", folder.path()}).out, "4242");
  const ProcessResult named = metrics({"4242", "--dir", folder.path()});
  EXPECT_HAS(named.out, "railwise_process_up{pid=\"4242\",rank=\"3\",program=\"all_reduce_perf\"} 0");
}

TEST(MetricsCommand, CountsRecordsThatCannotBeRead) {
  const Folder folder;
  const std::string name = "railwise-" + std::to_string(geteuid()) + "-17-18";
  const HeldRecord held(folder.scratch().file(name, "this is no record"));
  const ProcessResult result = succeeded(metrics({"--dir", folder.path()}));
  EXPECT_HAS(result.out, "railwise_records_unreadable 1\n");
  EXPECT_HAS(result.err, name + ": not a record of Railwise");
}

TEST(MetricsCommand, RootReadsTheRecordsOfAllUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const Folder folder;
  RecordBuilder record;
  record.header().pid = 4343;
  const std::string path = record.write(folder.path());
  const std::string other = folder.path("railwise-12345-4343-777");
  std::filesystem::rename(path, other);
  ASSERT_EQ(chown(other.c_str(), 12345, 12345), 0);
  const HeldRecord held(other);
  EXPECT_LACKS(metrics({"--dir", folder.path()}).out, "4343");
  const std::string all = metrics({"--dir", folder.path(), "--all-users"}).out;
  EXPECT_HAS(all, "pid=\"4343\"");
  EXPECT_HAS(all, "pid=\"4242\"");
}

TEST(MetricsCommand, ReplacesATextFile) {
  const Folder folder;
  const std::string file = folder.scratch().file("node/railwise.prom", "old");
  EXPECT_EQ(metrics({"--dir", folder.path(), "--textfile", file}).status, 0);
  EXPECT_HAS(contentOf(file), kSent);
  struct stat status = {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("node")), {}), 1);
}

TEST(MetricsCommand, LeavesNothingWhereItCannotWrite) {
  const Folder folder;
  std::filesystem::create_directories(folder.path("node/railwise.prom"));
  expectFailure(metrics({"--dir", folder.path(), "--textfile", folder.path("node/railwise.prom")}), 1,
                "cannot write " + folder.path("node/railwise.prom") + ": Is a directory");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("node")), {}), 1);
}

TEST(MetricsCommand, WritesFilesAgainAndAgainUntilASignal) {
  const Folder folder;
  Process process(RAILWISE_CLI, {"metrics", "--dir", folder.path(), "--textfile", folder.path("x.prom"),
                                 "--otlp", folder.path("x.jsonl"), "--interval", "1"});
  const auto lines = [&] {
    const std::string text = contentOf(folder.path("x.jsonl"));
    return std::ranges::count(text, '\n');
  };
  for (test::Patience patience; lines() < 2; patience.again()) usleep(1000);
  EXPECT_HAS(contentOf(folder.path("x.prom")), kSent);
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait().status, 0);
}

// A client of `railwise metrics --listen`.
class Client {
 public:
  explicit Client(const std::string& port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Client& send(const std::string& text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return *this;
  }
  // What comes until it ends with `end`, or until the server closes the connection.
  std::string receive(const std::string& end = "") {
    std::string text;
    for (test::Patience patience; end.empty() || !text.ends_with(end); patience.again()) {
      pollfd readable = {.fd = fd_, .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, 1000) == 0) continue;
      char bytes[4096];
      const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      text.append(bytes, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int fd_;
};

class MetricsServer : public testing::Test {
 protected:
  MetricsServer() {
    EXPECT_TRUE(process_.waitForOut("/metrics\n"));
    const std::string url = process_.out();
    port_ = url.substr(url.rfind(':') + 1);
    port_ = port_.substr(0, port_.find('/'));
  }
  std::string ask(const std::string& request) const { return Client(port_).send(request).receive(); }
  std::string get(const std::string& path) const {
    return ask("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  const Folder folder_;
  Process process_{RAILWISE_CLI, {"metrics", "--listen", "127.0.0.1:0", "--dir", folder_.path()}};
  std::string port_;
};

TEST_F(MetricsServer, ServesMetrics) {
  EXPECT_EQ(process_.out(), "listening at http://127.0.0.1:" + port_ + "/metrics\n");
  const std::string answer = get("/metrics");
  EXPECT_TRUE(
      answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
      << answer;
  EXPECT_HAS(answer, kSent);
  EXPECT_HAS(get("/"), "href=\"/metrics\"");
  EXPECT_TRUE(get("/favicon.ico").starts_with("HTTP/1.1 404 Not Found\r\n"));
}

TEST_F(MetricsServer, KeepsAConnectionForTheNextRequest) {
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  Client client(port_);
  EXPECT_HAS(client.send(request).receive("</html>\n"), "Connection: keep-alive");
  EXPECT_HAS(client.send(request + request).receive("</html>\n"), "200 OK");
  EXPECT_HAS(client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").receive("\r\n\r\n"), "200 OK");
}

TEST_F(MetricsServer, AnswersMistakesAndClosesTheConnection) {
  EXPECT_HAS(ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"),
             "405 Method Not Allowed\r\n");
  EXPECT_HAS(ask("nonsense\r\n\r\n"), "400 Bad Request\r\n");
  EXPECT_HAS(ask("GET /" + std::string(100000, 'a')), "431 Request Header Fields Too Large\r\n");
}

TEST_F(MetricsServer, ClientsThatSayNothingDoNotKeepOthersOut) {
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<Client>(port_));
    if (i % 2 == 0) silent.back()->send("GET /metrics HTTP/1.1\r\nHo");
  }
  EXPECT_HAS(get("/metrics"), kSent);
}

TEST_F(MetricsServer, AClientThatDoesNotReadDoesNotKeepOthersOut) {
  Client greedy(port_);
  for (int i = 0; i < 50; ++i) greedy.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_HAS(get("/metrics"), kSent);
}

TEST_F(MetricsServer, ASignalEndsIt) {
  Client open(port_);
  kill(process_.pid(), SIGINT);
  EXPECT_EQ(process_.wait().status, 0);
}

TEST_F(MetricsServer, TheAddressIsTakenThen) {
  expectFailure(metrics({"--listen", "127.0.0.1:" + port_, "--dir", folder_.path()}), 1,
                "cannot listen at 127.0.0.1:" + port_ + ": Address already in use");
}

TEST(MetricsCommand, ServesAnErrorWhenANamedProcessHasNoRecordAnyMore) {
  const Folder folder;
  Process process(RAILWISE_CLI, {"metrics", "4242", "--listen", "127.0.0.1:0", "--dir", folder.path()});
  ASSERT_TRUE(process.waitForOut("/metrics\n"));
  const std::string url = process.out();
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) std::filesystem::remove(file);
  const std::string port = url.substr(url.rfind(':') + 1);
  const std::string answer =
      Client(port.substr(0, port.find('/'))).send("GET /metrics HTTP/1.0\r\n\r\n").receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << answer;
  EXPECT_HAS(answer, "process 4242 has no record in ");
}

TEST(MetricsCommand, MistakesAreTold) {
  const auto says = [](const Args& args, int status, const std::string& part) {
    const ProcessResult result = metrics(args);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_HAS(result.err, part);
  };
  says({"x7"}, 2, "'x7' is not the number of a process");
  says({"--interval", "5"}, 2, "--interval needs a file: --textfile FILE or --otlp FILE");
  says({"--listen", "9464"}, 2, "'9464' is no address to listen at: ADDR:PORT, [IPV6]:PORT, or :PORT");
  says({"--listen", ":0", "--textfile", "x"}, 2, "--listen with a file needs --interval S");
  says({"--all-users", "7"}, 2, "--all-users reads all processes");
  says({"--dir", "/no/such", "7"}, 1, "process 7 has no record in /no/such");
  says({"--dir", "/no/such", "--textfile", "/no/such/x.prom"}, 1,
       "cannot write /no/such/x.prom: No such file or directory");
}

}  // namespace
}  // namespace railwise::cli
