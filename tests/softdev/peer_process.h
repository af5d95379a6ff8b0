// Another process with one Endpoint, driven by the test: this test program, executed again with
// --softdev-peer.
#pragma once

#include <sys/types.h>

#include <string>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {

class PeerProcess {
 public:
  // Starts it, with `devices` configured on `fabric`. Throws when it cannot open the device.
  PeerProcess(const std::string& fabric, const Options& options = {}, const std::string& devices = "");
  ~PeerProcess();  // kills it
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const Address& address() const { return address_; }
  pid_t pid() const { return pid_; }
  void connect(const Address& peer);
  int send(const Send& send);
  int receive(uint64_t wr_id, uint64_t offset = 0, uint32_t length = 0);
  ibv_wc wait();
  uint64_t word(uint64_t offset);
  void setWord(uint64_t offset, uint64_t value);
  // Sends so often, each time with the round's number, from 1 on, in all words: the first error, 0 when none.
  int sendRounds(const Send& send, uint64_t rounds);
  ibv_qp_state state();
  void unmapBuffer();                   // the memory goes, its registration stays
  void lockResponder(uint32_t qp_num);  // takes that QP's shared lock, for ever
  void lockCq(uint32_t index);          // the same of a completion queue
  void execute();                       // it executes this program anew, and knows of nothing
  void start();                         // ... and opens the device again
  void kill();                          // SIGKILL, and waits until it is gone

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string config_;
  Options options_;
  Address address_{};
};

// This process's end and a peer process's, connected, both with `devices` configured.
struct Processes {
  explicit Processes(const Options& ours = {}, const Options& theirs = {}, const std::string& devices = "")
      : device(devices), peer(device.fabric(), theirs, devices), end(device, ours) {
    connectEnds(end, peer);
  }
  OpenDevice device;
  PeerProcess peer;
  Endpoint end;
};

// Body of the --softdev-peer program; `fd` is the connection to the test.
int servePeer(int fd);
// Body of --softdev-peer-again, which it has executed.
int serveAgain(int fd);

}  // namespace railwise::softdev::test
