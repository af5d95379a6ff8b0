#include "record/kill/rank.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "net/net.h"
#include "wait.h"

namespace railwise::test {
namespace {

constexpr std::size_t kBytes = 20'000;  // of a message
constexpr int kWindow = 8;
constexpr int kRowsPerConnection = 12;

class Rank {
 public:
  explicit Rank(const RankSettings& settings) : settings_(settings), buffer_(2 * kWindow * kBytes) {}

  void run() {
    net::Net& net = **net::Net::acquire();
    context_ = std::make_unique<net::Context>(net, -1);
    std::vector<int> members(static_cast<std::size_t>(settings_.rails));
    std::iota(members.begin(), members.end(), 0);
    device_ = net.device(settings_.rails == 1 ? 0 : *net.makeVirtualDevice(members));
    memory_ = *device_->memory().acquire(address(0), buffer_.size(), net::MemoryKind::kHost);
    while (connect() && exchange()) close();
  }

 private:
  uint64_t address(int slot) const {
    return reinterpret_cast<uint64_t>(buffer_.data()) + static_cast<uint64_t>(slot) * kBytes;
  }

  // False: the peer is gone.
  bool connect() {
    std::array<char, net::kHandleBytes> handle = {};
    const auto listener = context_->listen(*device_, handle.data());
    if (!listener.ok()) return false;
    if (::send(settings_.peer, handle.data(), handle.size(), MSG_NOSIGNAL) < 0) return false;
    if (recv(settings_.peer, handle.data(), handle.size(), MSG_WAITALL) !=
        static_cast<ssize_t>(handle.size()))
      return false;
    send_ = nullptr;
    receive_ = nullptr;
    for (Patience patience; send_ == nullptr || receive_ == nullptr; patience.again()) {
      if (send_ == nullptr) {
        const auto connected = context_->connect(*device_, handle.data(), -1);
        if (!connected.ok()) return false;
        send_ = *connected;
      }
      if (receive_ == nullptr) {
        const auto accepted = net::Context::accept(**listener);
        if (!accepted.ok()) return false;
        receive_ = *accepted;
      }
    }
    net::Context::close(*listener);
    return true;
  }

  bool exchange() {
    for (int row = 0; row < kRowsPerConnection; ++row) {
      if (!exchangeRow()) return false;
      if (row == 0) (void)!write(settings_.ready, "", 1);
    }
    return true;
  }
  bool exchangeRow() {
    std::array<net::Request*, 2 * kWindow> open = {};
    int sent = 0;
    int received = 0;
    int done = 0;
    for (Patience patience; done < 2 * kWindow; patience.again()) {
      if (received < kWindow) {
        const net::ReceiveBuffer buffer = {address(received), kBytes, 0, memory_, nullptr};
        net::Request*& request = open[static_cast<std::size_t>(received)];
        if (!receive_->irecv({&buffer, 1}, false, &request).ok()) return false;
        received += request != nullptr ? 1 : 0;
      }
      if (sent < kWindow) {
        net::Request*& request = open[static_cast<std::size_t>(kWindow + sent)];
        if (!send_->isend(address(kWindow + sent), kBytes, 0, memory_, nullptr, &request).ok()) return false;
        sent += request != nullptr ? 1 : 0;
      }
      for (net::Request*& request : open) {
        bool complete = false;
        if (request == nullptr) continue;
        if (!request->connection->test(*request, &complete, nullptr).ok()) return false;
        if (!complete) continue;
        request = nullptr;
        ++done;
      }
    }
    return true;
  }
  void close() {
    net::Context::close(send_);
    net::Context::close(receive_);
  }

  const RankSettings& settings_;
  std::vector<char> buffer_;
  std::unique_ptr<net::Context> context_;
  const net::Device* device_ = nullptr;
  net::MemoryHandle* memory_ = nullptr;
  net::SendConnection* send_ = nullptr;
  net::ReceiveConnection* receive_ = nullptr;
};

}  // namespace

void runRank(const RankSettings& settings) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("RAILWISE_METRICS_DIR", settings.folder.c_str(), 1);
  setenv("RAILWISE_DEVICE", settings.devices.c_str(), 1);
  setenv("RAILWISE_FUSE_PLACELESS", "1", 1);
  setenv("RAILWISE_FAILOVER_TIMEOUT", "1", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  if (const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0)
    (void)dup2(nowhere, STDERR_FILENO);  // its warnings are not what the test is about
  Rank(settings).run();
  waitToBeKilled();
}

}  // namespace railwise::test
