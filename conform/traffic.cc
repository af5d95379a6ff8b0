#include "conform/traffic.h"

namespace railwise::conform {

Traffic::Traffic(Connection& connection, std::size_t count, std::size_t bytes, std::size_t window)
    : api_(connection.api),
      connection_(connection),
      count_(count),
      bytes_(bytes),
      window_(window),
      from_(api_, connection.send, window * bytes),
      to_(api_, connection.receive, window * bytes) {}

void Traffic::step() {
  for (End* end : {&receiver, &sender}) {
    if (over(*end)) continue;
    if (end->posted < count_ && end->requests.size() < window_) end->error = post(*end);
    if (end->error == ncclSuccess && !end->requests.empty()) end->error = look(*end);
  }
}

bool Traffic::advance() {
  step();
  must(sender.error, "a send");
  must(receiver.error, "a receive");
  return over(sender) && over(receiver);
}

void Traffic::run() {
  until("the end of the stream", [this] { return advance(); });
  from_.deregister();
  to_.deregister();
}

void Traffic::close(bool sends) {
  (sends ? from_ : to_).deregister();
  must(sends ? api_.closeSend(connection_.send) : api_.closeRecv(connection_.receive),
       "close after an error");
}

ncclResult_t Traffic::post(End& end) {
  const std::size_t at = placeOf(end.posted);
  void* request = nullptr;
  ncclResult_t result;
  if (&end == &sender) {
    from_.fill(at, bytes_, seedOf(end.posted));
    result = api_.isend(connection_.send, from_.data() + at, bytes_, 0, from_.handle(), &request);
  } else {
    const NetApi::Buffer buffer = {to_.data() + at, bytes_, 0, to_.handle()};
    result = api_.irecvGroup(connection_.receive, {&buffer, 1}, &request);
  }
  if (result == ncclSuccess && request != nullptr) end.requests.emplace_back(request, end.posted++);
  return result;
}

ncclResult_t Traffic::look(End& end) {
  int done = 0, size = -1;
  const auto [request, number] = end.requests.front();
  const ncclResult_t result = api_.test(request, &done, &size);
  if (result != ncclSuccess || done == 0) return result;
  if (&end == &sender) {
    from_.fill(placeOf(number), bytes_, 255);  // it belongs to the caller again
  } else if (const std::string wrong = wrongOf(to_, placeOf(number), bytes_, size, seedOf(number));
             !wrong.empty()) {
    throw Broken("receive " + std::to_string(number) + " is done and " + wrong);
  }
  end.requests.pop_front();
  ++end.done;
  return ncclSuccess;
}

}  // namespace railwise::conform
