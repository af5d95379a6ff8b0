// A device is dying: its driver takes a call and does not answer. Only threads of the device wait for it; the
// connections of the process go on over other devices.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "loop_connection.h"
#include "net/in_child.h"
#include "net/loop_traffic.h"
#include "port_control.h"
#include "said.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

struct Wire {
  const char* name;
  const char* link;
  bool manager;
};

class DyingDevice : public testing::TestWithParam<Wire> {
 protected:
  static std::string devices(int count) {
    return "count=" + std::to_string(count) + ",link=" + GetParam().link;
  }

 private:
  const test::Setting connect_{"RAILWISE_CONNECT", GetParam().manager ? "cm" : "auto"};
};

// One message of a LoopConnection, each end step by step. No step waits.
struct OneMessage {
  explicit OneMessage(LoopConnection& its) : loop(its) {}
  // Posts the receive once that is possible, then tests it.
  Status receive() {
    const ReceiveBuffer buffer = {loop.address(kHalf), 512, 0, loop.memory(), nullptr};
    if (receive_request == nullptr) return loop.receiver().irecv({&buffer, 1}, false, &receive_request);
    return received ? Status::success() : loop.receiver().test(*receive_request, &received, nullptr);
  }
  void send() {
    if (send_request == nullptr) send_request = loop.send(0, 512);
    else if (!sent) (void)loop.sender().test(*send_request, &sent, nullptr);
  }
  void stepBoth() {
    (void)receive();
    send();
  }

  LoopConnection& loop;
  Request* receive_request = nullptr;
  Request* send_request = nullptr;
  bool received = false;
  bool sent = false;
};

// Destructions that follow the loss of a connection never return.
TEST_P(DyingDevice, ConnectionsGoOnOverAnother) {
  for (const char* verb : {"destroy_qp", "destroy_cq"}) {
    EXPECT_EQ("", inChild([&]() -> std::string {
                LoopConnection loop(2 * kHalf, devices(2));
                Traffic traffic(loop);
                if (!traffic.run(16, 512)) return "no traffic";
                test::addFault(std::string("device=soft0 delay=1000s nth=1 every=1 verb=") + verb);
                test::changePort("soft0:1", "down");
                if (!traffic.run(64, 20'000)) return "it does not go on";
                if (!isOn(loop, "soft1")) return "it is not on soft1";
                return "";
              }))
        << verb;
  }
}

// The receiver has left when the sender's driver stops answering.
TEST_P(DyingDevice, TheSendersNeedNotAnswer) {
  for (const bool fused : {false, true}) {
    EXPECT_EQ("", inChild([&]() -> std::string {
                LoopConnection loop(2 * kHalf, devices(2), fused ? 2 : 1);
                Traffic traffic(loop);
                if (!traffic.run(16, 60'000)) return "no traffic";
                test::changePort("soft0:1", "down");
                OneMessage message(loop);
                test::waitUntil([&] {
                  (void)message.receive();
                  return loop.receiver().epoch() > 1;
                });
                test::addFault("device=soft0 delay=1000s nth=1 every=1 verb=modify_qp");
                test::waitUntil([&] {
                  message.stepBoth();
                  return message.received && message.sent;
                });
                if (!traffic.run(64, 512)) return "it does not go on";
                if (!isOn(loop, "soft1")) return "it is not on soft1";
                return "";
              }))
        << fused;
  }
}

// Both ends wait for their driver, and NCCL's thread does not. Once the driver answers, they go on, and the
// device is in use again.
TEST_P(DyingDevice, IsUsedAgainOnceItsDriverAnswers) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              if (!traffic.run(16, 512)) return "no traffic";
              const test::Said said;
              Hca& first = *loop.device().rails().front().hca;
              test::addFault("device=soft0 delay=3s nth=1 count=1 verb=modify_qp");
              test::changePort("soft0:1", "down");
              OneMessage message(loop);
              test::waitUntil([&] {
                (void)message.receive();
                return !first.answers();
              });
              if (message.received || loop.receiver().running()) return "it has not lost its path";
              test::waitUntil([&] {
                message.stepBoth();
                return message.received && message.sent;
              });
              if (!first.answers()) return "it went on before the driver answered";
              test::changePort("soft0:1", "up");
              if (!until(traffic, [&] { return isOn(loop, "soft0"); })) return "it does not go back";
              if (said.warnings().find("soft0: its driver has not answered") == std::string::npos)
                return "no warning: " + said.warnings();
              return "";
            }));
}

// Connections that are closed meanwhile, and new ones.
TEST_P(DyingDevice, KeepsNobodyFromClosingAndConnecting) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              if (!traffic.run(16, 512)) return "no traffic";
              test::addFault("device=soft0 delay=1000s nth=1 every=1 verb=modify_qp+destroy_qp");
              SendConnection& first = loop.sender();
              ReceiveConnection& other = loop.receiver();
              test::changePort("soft0:1", "down");
              test::waitUntil([&] { return !loop.device().rails().front().hca->state().active(1); });
              // The receiver is closed in the middle of its recovery, the sender before it has noticed.
              OneMessage message(loop);
              test::waitUntil([&] {
                (void)message.receive();
                return !other.running();
              });
              loop.useAnother();
              Context::close(&first);
              Context::close(&other);
              if (!Traffic(loop).run(64, 512)) return "no traffic over the new connection";
              if (!isOn(loop, "soft1")) return "the new connection is not on soft1";
              return "";
            }));
}

// Its port is up: only the driver of the device is silent.
TEST_P(DyingDevice, IsNotUsedForNewConnections) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              if (!traffic.run(16, 512)) return "no traffic";
              Hca& first = *loop.device().rails().front().hca;
              test::addFault("device=soft0 delay=1000s nth=1 every=1 verb=modify_qp");
              test::addFault("device=soft0 opcode=any nth=1 count=1 status=general_err");
              OneMessage message(loop);
              test::waitUntil([&] {
                message.stepBoth();
                return !first.answers();
              });
              if (message.received) return "it has received over a lost queue pair";
              if (!first.state().active(1)) return "the port is down";
              loop.useAnother();
              if (!Traffic(loop).run(64, 512)) return "no traffic over the new connection";
              if (!isOn(loop, "soft1")) return "the new connection is not on soft1";
              return "";
            }));
}

// Nobody waits for a driver when the peer has gone.
TEST_P(DyingDevice, ThePeerLeavesMeanwhile) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              if (!traffic.run(16, 512)) return "no traffic";
              test::addFault("device=soft0 delay=1000s nth=1 every=1 verb=modify_qp");
              OneMessage message(loop);
              test::waitUntil([&] {
                (void)message.receive();
                return message.receive_request != nullptr;
              });
              test::changePort("soft0:1", "down");
              Hca& first = *loop.device().rails().front().hca;
              test::waitUntil([&] {
                if (!message.receive().ok()) throw std::runtime_error("it fails too early");
                return !first.answers();
              });
              Context::close(&loop.sender());
              test::waitUntil([&] { return !message.receive().ok(); });
              if (message.received) return "it has received something";
              return "";
            }));
}

// A driver answers after Net has ended and left its devices open, while a new Net of the process runs.
TEST_P(DyingDevice, ALateAnswerFindsWhatItNeeds) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              const test::Said said;
              {
                LoopConnection loop(2 * kHalf, devices(2));
                Traffic traffic(loop);
                if (!traffic.run(16, 512)) return "no traffic";
                test::addFault("device=soft0 delay=6s nth=1 count=1 verb=destroy_qp");
                test::changePort("soft0:1", "down");
                if (!traffic.run(16, 512)) return "it does not go on";
                test::changePort("soft0:1", "up");
              }
              // On iWARP the connection may have waited for the driver before it went on.
              const bool waits = std::string(GetParam().link) == "iwarp";
              if (!waits && said.all().find("its devices stay open") == std::string::npos)
                return "nothing was left behind: " + said.all();
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              const Deadline answered = Deadline::after(std::chrono::seconds(7));
              while (!answered.passed()) {
                if (!traffic.run(16, 512)) return "no traffic after the new begin";
              }
              return "";
            }));
}

INSTANTIATE_TEST_SUITE_P(Wires, DyingDevice,
                         testing::Values(Wire{"InfiniBand", "ib", false}, Wire{"RdmaCm", "roce", true},
                                         Wire{"Iwarp", "iwarp", false}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace railwise::net
