#include "cli/http/request.h"

#include <algorithm>
#include <optional>

namespace railwise::cli {
namespace {

HttpRequest wrong(int status) {
  return {.state = HttpRequest::State::kWrong, .status = status, .close = true};
}

// Takes a line with its end, LF or CR LF, from the front of `text`. Null: there is no whole line yet.
std::optional<std::string_view> takeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool isToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "/metrics?x", or "http://host/metrics" as a proxy is sent it. Empty: no target.
std::string pathOf(std::string_view target) {
  if (lower(target.substr(0, 7)) == "http://") {
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return "";
  return std::string(target.substr(0, target.find_first_of("?#")));
}

// Is `option` in a list like "close, te"?
bool lists(std::string_view value, std::string_view option) {
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    if (lower(trimmed(value.substr(0, comma))) == option) return true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return false;
}

// Reads the fields up to the empty line into `request`. The status of what is wrong; 0: nothing; -1: the
// empty line has not come.
int readFields(std::string_view& text, bool newest, HttpRequest& request) {
  int hosts = 0;
  bool keep = false;
  for (;;) {
    const auto line = takeLine(text);
    if (!line) return -1;
    if (line->empty()) break;
    const std::size_t colon = line->find(':');
    if (colon == std::string_view::npos || !isToken(line->substr(0, colon))) return 400;
    const std::string name = lower(line->substr(0, colon));
    const std::string_view value = trimmed(line->substr(colon + 1));
    if (std::any_of(value.begin(), value.end(),
                    [](unsigned char c) { return (c < ' ' && c != '\t') || c == 127; }))
      return 400;
    if (name == "host") ++hosts;
    if (name == "connection") {
      request.close |= lists(value, "close");
      keep |= lists(value, "keep-alive");
    }
    // A body is not read, so what follows the request is not known to be the next one.
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) request.close = true;
  }
  if (!newest && !keep) request.close = true;
  return newest && hosts != 1 ? 400 : 0;
}

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

HttpRequest readRequest(std::string_view text) {
  const bool full = text.size() >= kMostRequestBytes;
  text = text.substr(0, kMostRequestBytes);
  std::string_view rest = text;
  const HttpRequest incomplete = full ? wrong(431) : HttpRequest{};
  auto line = takeLine(rest);
  while (line && line->empty()) line = takeLine(rest);  // what some clients send behind a body
  if (!line) return incomplete;
  const std::size_t first = line->find(' ');
  const std::size_t last = line->rfind(' ');
  if (first == std::string_view::npos || first == last || !isToken(line->substr(0, first))) return wrong(400);
  const std::string_view method = line->substr(0, first);
  const std::string_view target = line->substr(first + 1, last - first - 1);
  const std::string_view version = line->substr(last + 1);
  if (std::any_of(target.begin(), target.end(), [](char c) { return c <= ' ' || c > '~'; }))
    return wrong(400);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return wrong(version.starts_with("HTTP/") ? 505 : 400);
  HttpRequest request = {
      .state = HttpRequest::State::kWhole, .head = method == "HEAD", .path = pathOf(target)};
  const int status = readFields(rest, version == "HTTP/1.1", request);
  if (status < 0) return incomplete;
  if (status > 0) return wrong(status);
  if (method != "GET" && method != "HEAD") return wrong(405);
  if (request.path.empty()) return wrong(400);
  request.length = text.size() - rest.size();
  return request;
}

std::string answerText(const HttpAnswer& answer, bool head, bool close) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " + reason(answer.status) + "\r\n";
  text += "Content-Type: " + answer.type + "\r\n";
  text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  if (answer.status == 405) text += "Allow: GET, HEAD\r\n";
  text += close ? "Connection: close\r\n" : "Connection: keep-alive\r\n";
  return text + "\r\n" + (head ? "" : answer.body);
}

}  // namespace railwise::cli
