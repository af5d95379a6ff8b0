// Railwise's own warnings, by family. Each line itself says what to do, so the rows have no fix.
#include "doctor/log/known_line.h"

namespace railwise::doctor {
namespace {

constexpr KnownLine kRailwiseLines[] = {
    {"looking for another path", "", "railwise-failover", kRemark, true,
     "a connection lost its path and looks for another one",
     "The job goes on, at the speed of the paths that are left.", ""},
    {"is opened anew", "", "railwise-failover", kRemark, false, "a NIC came back",
     "Connections use it again.", ""},
    {"opened anew after its failure", "", "railwise-failover", kRemark, false, "a NIC came back",
     "Connections use it again.", ""},
    {"it has failed", "not opened again", "railwise-failover", kRemark, true, "a NIC failed too often",
     "The job goes on without it.", ""},
    {"the device is gone", "", "port-event", kRemark, true, "a NIC is gone",
     "The job goes on if another one is left.", ""},
    {"every port is down", "", "port-event", kCause, true, "every port is down", "No connection can be made.",
     ""},
    {"closed the connection or died with work outstanding", "", "connection-closed", kConsequence, true,
     "another rank went away", "As a rule that rank failed first, or was killed.",
     "look at the log of that rank, and at its node (dmesg: out of memory, Xid)"},
    {": connection to ", "", "railwise-connection", kCause, true, "a connection failed for good",
     "No pair of ports was left between the two ranks, or the peer died.", ""},
    {": connection from ", "", "railwise-connection", kCause, true, "a connection failed for good",
     "No pair of ports was left between the two ranks, or the peer died.", ""},
    {": connecting to ", "", "railwise-handshake", kCause, true, "the handshake with another rank failed",
     "The peer did not answer, runs another plugin, or its address cannot be reached.", ""},
    {"calling from ", "", "railwise-handshake", kCause, true, "the handshake with another rank failed",
     "The peer hung up, runs another plugin or other settings.", ""},
    {"no network interface for the handshakes", "", "socket-interface", kCause, true,
     "no network interface for the handshakes", "Railwise exchanges addresses over TCP.", ""},
    {"listening on ", "failed", "socket-interface", kCause, true, "no socket for the handshakes",
     "Railwise exchanges addresses over TCP.", ""},
    {"accepting on ", "failed", "process-limits", kCause, true, "a handshake cannot be accepted",
     "There is no descriptor or memory left.", ""},
    {"no RDMA", "", "no-rdma-device", kCause, true, "Railwise found no RDMA device that it may use",
     "NCCL then takes its next network, as a rule Socket.",
     "ls /sys/class/infiniband; ibv_devinfo  # on that node, inside the container\n"
     "docker run --device=/dev/infiniband ...  # Kubernetes: a device plugin, or hostPath and privileged"},
    {"not a usable libibverbs", "", "no-rdma-device", kCause, true, "libibverbs cannot be used",
     "NCCL then takes its next network, as a rule Socket.",
     "ls /sys/class/infiniband; ibv_devinfo  # on that node, inside the container\n"
     "docker run --device=/dev/infiniband ...  # Kubernetes: a device plugin, or hostPath and privileged"},
    {"out of memory that may be locked", "", "memory-lock", kCause, true,
     "memory cannot be registered: the limit of locked memory",
     "RDMA needs memory that the kernel may not move.",
     "ulimit -l unlimited\ndocker run --ulimit memlock=-1 ..."},
    {" bytes at 0x", "failed", "memory-registration", kCause, true, "memory cannot be registered",
     "The NIC cannot use the buffer.", ""},
    {"queue pair with", "cannot be made", "queue-pair", kCause, true, "a queue pair cannot be made",
     "The NIC has none left, or not so large.", ""},
    {"completion queue", "", "memory-lock", kCause, true, "a completion queue cannot be made",
     "The limit of locked memory, or the NIC has none left.",
     "ulimit -l unlimited\ndocker run --ulimit memlock=-1 ..."},
    {"GID", "", "railwise-address", kCause, true, "a port has no address that can be used",
     "Without an address (GID) no connection can be made through it.", ""},
    {"the two ends of a connection differ", "", "device-mismatch", kRemark, true,
     "the two ends of a connection differ", "The slower end sets the speed.", ""},
    {"traffic crosses rails", "", "device-mismatch", kRemark, true, "traffic crosses rails",
     "It takes more hops through the switches than on one rail.", ""},
    {"RAILWISE_TOPOLOGY", "", "topology-file", kRemark, true, "the topology file is not used as it was meant",
     "NCCL sees another machine than you describe.", ""},
    {"makeVDevice", "", "device-mismatch", kRemark, true, "NICs cannot be fused",
     "NCCL uses them one by one.", ""},
    {"is not known", "", "railwise-setting", kRemark, true, "a setting has a value that is not known",
     "It does not do what was meant.", ""},
    {": using ", "", "railwise-setting", kRemark, true, "a setting has a value that is not allowed",
     "Another value is used.", ""},
    {"as if it were not set", "", "railwise-setting", kRemark, true,
     "a setting has a value that is not allowed", "The setting has no effect.", ""},
    {"software device", "", "software-device", kRemark, true, "the software device warns",
     "It stands for hardware in tests.", ""},
    {" port ", "", "port-event", kRemark, true, "a port changed its state or is not used",
     "The job goes on over the other ports, if there are any.", ""},
};

}  // namespace

std::span<const KnownLine> knownRailwiseWarnings() { return kRailwiseLines; }

}  // namespace railwise::doctor
