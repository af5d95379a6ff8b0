// What clients send to the server of `railwise metrics`: good, wrong, cut and hostile requests.
#include <gtest/gtest.h>

#include "cli/http/server.h"
#include "ok.h"

namespace railwise::cli {
namespace {

using State = HttpRequest::State;

TEST(HttpRequest, IsRead) {
  const std::string text = "GET /metrics?a=b HTTP/1.1\r\nHost: x:9464\r\nAccept: */*\r\n\r\n";
  const HttpRequest request = readRequest(text + "GET /next");
  EXPECT_EQ(request.state, State::kWhole);
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.length, text.size());
  EXPECT_FALSE(request.head);
  EXPECT_FALSE(request.close);
}

TEST(HttpRequest, IsIncompleteUntilTheEmptyLine) {
  const std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(readRequest(text.substr(0, length)).state, State::kIncomplete) << length;
  EXPECT_EQ(readRequest(text).state, State::kWhole);
}

TEST(HttpRequest, MayHaveLinesWithoutCarriageReturn) {
  EXPECT_EQ(readRequest("\nGET / HTTP/1.1\nHost: x\n\n").state, State::kWhole);
}

TEST(HttpRequest, SaysWhetherTheConnectionStays) {
  EXPECT_TRUE(readRequest("GET / HTTP/1.1\r\nHost: x\r\nConnection: te, Close\r\n\r\n").close);
  EXPECT_TRUE(readRequest("GET / HTTP/1.0\r\n\r\n").close);
  EXPECT_FALSE(readRequest("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").close);
  EXPECT_TRUE(readRequest("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /").close);
  EXPECT_TRUE(readRequest("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").close);
}

TEST(HttpRequest, MayNameTheHostInItsTarget) {
  EXPECT_EQ(readRequest("GET http://h:1/metrics HTTP/1.1\r\nHost: x\r\n\r\n").path, "/metrics");
  EXPECT_EQ(readRequest("GET HTTP://h HTTP/1.1\r\nHost: x\r\n\r\n").path, "/");
}

TEST(HttpRequest, MistakesHaveAStatus) {
  const auto status = [](const std::string& text) {
    const HttpRequest request = readRequest(text);
    EXPECT_EQ(request.state, State::kWrong) << text;
    EXPECT_TRUE(request.close);
    return request.status;
  };
  EXPECT_EQ(status("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
  EXPECT_EQ(status("BREW / HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
  EXPECT_EQ(status("GET / HTTP/2.0\r\n\r\n"), 505);
  for (const char* text :
       {"GET /\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "G@T / HTTP/1.1\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\x01\r\n\r\n", "GET / JUNK\r\n\r\n", "\x16\x03\x01 tls hello\n"})
    EXPECT_EQ(status(text), 400) << text;
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(kMostRequestBytes, 'a')), 431);
  EXPECT_EQ(status(std::string(kMostRequestBytes, 'a')), 431);
}

TEST(HttpAnswer, AHeadHasNoBody) {
  const HttpAnswer answer = {.status = 404, .body = "no\n"};
  EXPECT_EQ(answerText(answer, true, true),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\n");
  EXPECT_TRUE(answerText(answer, false, false).ends_with("Connection: keep-alive\r\n\r\nno\n"));
}

TEST(ListenAddress, HasThreeForms) {
  EXPECT_EQ(parseListenAddress("127.0.0.1:80")->text(), "127.0.0.1:80");
  EXPECT_EQ(parseListenAddress("[::1]:0")->text(), "[::1]:0");
  EXPECT_EQ(parseListenAddress(":9464")->text(), "[::]:9464");
  EXPECT_EQ(parseListenAddress("localhost:9464")->text(), "127.0.0.1:9464");
  for (const char* text : {"", "9464", "host:9464", "1.2.3:1", "::1:9464", "[::1]", "[::1:1",
                           "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1"})
    EXPECT_FALSE(parseListenAddress(text).ok()) << text;
}

}  // namespace
}  // namespace railwise::cli
