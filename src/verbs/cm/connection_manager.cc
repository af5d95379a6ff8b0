#include "verbs/cm/connection_manager.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

namespace railwise::verbs {
namespace {

// How long the kernel may try to resolve the peer's address (ARP), and how often we try. The caller has a
// time limit besides. Linux 6.12 may miss the answer if both ends ask each other at the same time, and then
// notices it only at the end of this time. So a short time and several tries are better.
constexpr int kResolveAddressMs = 200;
constexpr int kResolveTries = 25;
// The same limit for the route. On InfiniBand one subnet manager answers all requests.
constexpr int kResolveRouteMs = 5000;
// Reasons with which the managers of InfiniBand and RoCE reject (InfiniBand specification, table 110). That
// of iWARP reports ECONNREFUSED.
constexpr int kReasonNoService = 8;
constexpr int kReasonConsumer = 28;  // the program has rejected the connection, or has ended
constexpr const char* kNobody = "refused: nobody listens there";

// The printable beginning of the data: a peer may have sent its reason.
std::string textOf(const CmPrivateData& data) {
  std::string text;
  for (const std::byte byte : data.span()) {
    const auto c = std::to_integer<unsigned char>(byte);
    if (std::isprint(c) == 0) break;
    text += static_cast<char>(c);
  }
  return text;
}

// A status of the manager is a negative errno or a positive reason.
std::string reasonOf(int status) {
  if (status < 0) return std::strerror(-status);
  if (status == kReasonConsumer) return "it does not want the connection, or is gone";
  return "reason " + std::to_string(status);
}

}  // namespace

std::unique_ptr<CmConnection> CmConnection::make(QueuePair queue_pair, const Port& port, const Config& config,
                                                 const CmPath& path) {
  std::unique_ptr<CmConnection> made(new CmConnection);
  made->queue_pair_ = std::move(queue_pair);
  made->port_ = port;
  made->path_ = path;
  made->timeout_ = static_cast<uint8_t>(config.ib_timeout);
  made->retry_count_ = static_cast<uint8_t>(config.ib_retry_count);
  return made;
}

Result<std::unique_ptr<CmConnection>> CmConnection::connect(QueuePair queue_pair, const Port& port,
                                                            const SocketAddress& local,
                                                            const SocketAddress& peer, const Config& config,
                                                            const CmPath& path,
                                                            std::span<const std::byte> private_data) {
  if (private_data.size() > kCmRequestBytes) return Status{Code::kInvalidArgument, 0};
  const Result<const CmLibrary*> library = cmLibrary();
  if (!library.ok()) return library.status();
  const CmLibrary& cm = **library;
  std::unique_ptr<CmConnection> made = make(std::move(queue_pair), port, config, path);
  made->local_ = SocketAddress(local.family(), local.bytes(), 0, local.scopeId());
  made->peer_ = peer;
  std::copy(private_data.begin(), private_data.end(), made->request_.bytes.begin());
  made->request_.size = private_data.size();
  made->channel_ = makeCmChannel(cm);
  RAILWISE_TRY(made->resolve());
  return made;
}

// Makes an id, which takes a port number, and begins to resolve the address.
Status CmConnection::resolve() {
  const CmLibrary& cm = cmLibraryInUse();
  id_ = makeCmId(cm, channel_.get());
  if (id_ == nullptr) return fail("no event channel or id", errno);
  state_ = State::kResolving;
  setTypeOfService();
  sockaddr_storage from = storageOf(local_);
  sockaddr_storage to = storageOf(peer_);
  if (cm.resolve_addr(id_.get(), raw(from), raw(to), kResolveAddressMs) == 0) return Status::success();
  return fail("resolving the address", errno);
}

Result<std::unique_ptr<CmConnection>> CmConnection::accept(CmRequest request, QueuePair queue_pair,
                                                           const Port& port, const Config& config,
                                                           const CmPath& path,
                                                           std::span<const std::byte> private_data) {
  if (private_data.size() > kCmReplyBytes || request.id_ == nullptr) return Status{Code::kInvalidArgument, 0};
  std::unique_ptr<CmConnection> made = make(std::move(queue_pair), port, config, path);
  made->channel_ = std::move(request.channel_);
  made->id_ = std::move(request.id_);
  made->local_ = SocketAddress(made->id_->route.addr.src_addr);
  made->peer_ = SocketAddress(made->id_->route.addr.dst_addr);
  made->state_ = State::kEstablishing;
  made->setTypeOfService();
  RAILWISE_TRY(made->checkDevice());
  RAILWISE_TRY(made->bringUp());
  rdma_conn_param reply = made->parameters(private_data);
  if (cmLibraryInUse().accept(made->id_.get(), &reply) != 0) return made->fail("accepting", errno);
  return made;
}

CmConnection::~CmConnection() { disconnect(); }

void CmConnection::disconnect() {
  if (id_ != nullptr && state_ != State::kResolving) (void)cmLibraryInUse().disconnect(id_.get());
  state_ = State::kResolving;  // once
}

int CmConnection::destroyQueuePair() {
  disconnect();
  return destroy(queue_pair_.qp);
}

// Must come before the route is chosen. If it is too late or refused, that does no harm: the path of the
// queue pair gets the traffic class anyway.
void CmConnection::setTypeOfService() {
  if (path_.traffic_class != 0)
    (void)cmLibraryInUse().set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &path_.traffic_class,
                                      sizeof path_.traffic_class);
}

rdma_conn_param CmConnection::parameters(std::span<const std::byte> private_data) const {
  rdma_conn_param parameters = {};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.responder_resources = parameters.initiator_depth = readDepth();
  parameters.retry_count = retry_count_;
  parameters.rnr_retry_count = kRnrRetry;
  parameters.qp_num = qp()->qp_num;
  return parameters;
}

uint8_t CmConnection::readDepth() const {
  ibv_device_attr device = {};
  if (!port_.iwarp || library().query_device(qp()->context, &device) != 0) return kFlushReadDepth;
  return readsAtOnce(device);
}

Result<bool> CmConnection::advance() {
  // In state kUp a failure is not returned yet: the peer's disconnect may be the first sign that our own
  // device was removed, so further events are read first.
  if (!failure_.ok() && state_ != State::kUp) return failure_;
  const CmLibrary& cm = cmLibraryInUse();
  rdma_cm_event* event = nullptr;
  while (cm.get_cm_event(channel_.get(), &event) == 0) {
    {
      const CmEvent acknowledged(event);  // before its id is destroyed
      RAILWISE_TRY(step(*event));
    }
    if (std::exchange(again_, false)) RAILWISE_TRY(resolve());
  }
  if (!failure_.ok()) return failure_;
  if (errno != EAGAIN && errno != EINTR) return fail("reading its events", errno);
  return state_ == State::kUp;
}

Status CmConnection::step(const rdma_cm_event& event) {
  const CmLibrary& cm = cmLibraryInUse();
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      RAILWISE_TRY(checkDevice());
      if (cm.resolve_route(id_.get(), kResolveRouteMs) != 0) return fail("resolving the route", errno);
      return Status::success();
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      rdma_conn_param request = parameters(request_.span());
      state_ = State::kConnecting;
      if (cm.connect(id_.get(), &request) == 0) return Status::success();
      if (errno == ECONNREFUSED) return give(kNobody);  // siw refuses at once
      if (errno == EADDRINUSE && ++ports_tried_ < kPortTries) return tryAgain();
      return fail("connecting", errno);
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE:  // InfiniBand, RoCE: we must bring the queue pair up
      reply_ = copyOf(event);
      RAILWISE_TRY(bringUp());
      if (cm.establish(id_.get()) != 0) return fail("confirming the connection", errno);
      state_ = State::kUp;
      return Status::success();
    case RDMA_CM_EVENT_ESTABLISHED:
      if (state_ == State::kConnecting) reply_ = copyOf(event);
      state_ = State::kUp;
      return Status::success();
    default:
      return stepOnError(event);
  }
}

Status CmConnection::stepOnError(const rdma_cm_event& event) {
  const std::string reason = reasonOf(event.status);
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (event.status == -ETIMEDOUT && ++times_resolved_ < kResolveTries) return tryAgain();
      [[fallthrough]];
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return give("no path there: " + reason +
                  "; check that the interface of the device is up and reaches the peer");
    case RDMA_CM_EVENT_UNREACHABLE:
      return give("no answer: " + reason + "; check the network between them");
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return give("the connection failed: " + reason);
    case RDMA_CM_EVENT_REJECTED: {
      if (event.status == kReasonNoService) return give(kNobody);
      const std::string said = textOf(copyOf(event));
      return give("refused by the peer (" + (said.empty() ? reason : said) + ")");
    }
    case RDMA_CM_EVENT_DISCONNECTED:
      if (state_ != State::kUp) return give("the peer closed the connection before it stood");
      failure_ = {Code::kRemote, 0};
      RAILWISE_INFO(log::kNet, "%s", describe("the peer has disconnected").c_str());
      return failure_;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return fail("the device was removed", ENODEV);
    default:
      return Status::success();  // a change of address, or the end of TIMEWAIT
  }
}

// The manager opens devices itself. Checks that it has found our device.
Status CmConnection::checkDevice() {
  const ibv_context* found = id_->verbs;
  const char* ours = deviceName(qp()->context);
  if (found != nullptr && std::strcmp(deviceName(found), ours) == 0 && id_->port_num == port_.number)
    return Status::success();
  return give(std::string("the address belongs to ") +
                  (found != nullptr ? deviceName(found) : "no RDMA device") + ", not to this port",
              Code::kInvalidUsage);
}

// Moves the queue pair from INIT to RTS with the manager's path and our own limits. On iWARP the manager does
// that.
Status CmConnection::bringUp() {
  if (port_.iwarp) return Status::success();
  RAILWISE_TRY(enter(IBV_QPS_INIT));
  RAILWISE_TRY(enter(IBV_QPS_RTR));
  return enter(IBV_QPS_RTS);
}

Status CmConnection::enter(ibv_qp_state state) {
  ibv_qp_attr attributes = {};
  int mask = 0;
  attributes.qp_state = state;
  if (cmLibraryInUse().init_qp_attr(id_.get(), &attributes, &mask) != 0)
    return fail("asking for the queue pair's attributes", errno);
  // Bits that are valid only on RoCE. Older kernels set them for InfiniBand too, and then refuse them.
  constexpr int kEthernetOnly = 0xe00000;
  if (!port_.ethernet) mask &= ~kEthernetOnly;
  if (state == IBV_QPS_INIT) {
    mask &= ~IBV_QP_ACCESS_FLAGS;  // those of createQueuePair() stay
  } else if (state == IBV_QPS_RTR) {
    attributes.min_rnr_timer = kMinRnrTimer;
    if (path_.traffic_class != 0) attributes.ah_attr.grh.traffic_class = path_.traffic_class;
  } else {
    attributes.timeout = timeout_;
    attributes.retry_cnt = retry_count_;
    attributes.rnr_retry = kRnrRetry;
  }
  const int error = library().modify_qp(qp(), &attributes, mask);
  if (error == 0) return Status::success();
  const char* name = state == IBV_QPS_INIT ? "INIT" : state == IBV_QPS_RTR ? "RTR" : "RTS";
  return fail((std::string("transition to ") + name).c_str(), error);
}

std::string CmConnection::describe(const std::string& what) const {
  return std::string(deviceName(qp()->context)) + " port " + std::to_string(port_.number) + " qp " +
         std::to_string(qp()->qp_num) + ": RDMA CM connection " + local_.text() +
         (state_ == State::kEstablishing ? " from " : " to ") + peer_.text() + ": " + what;
}

// The id cannot be destroyed before its event is acknowledged, so advance() begins again later.
Status CmConnection::tryAgain() {
  again_ = true;
  return Status::success();
}

Status CmConnection::give(const std::string& what, Code code) { return fail(what, {code, 0}); }

Status CmConnection::fail(const char* what, int error) {
  return fail(std::string(what) + ": " + std::strerror(error), {Code::kSystem, error});
}

Status CmConnection::fail(const std::string& what, Status status) {
  if (path_.quiet) RAILWISE_INFO(log::kNet, "%s", describe(what).c_str());
  else RAILWISE_WARN("%s", describe(what).c_str());
  failure_ = status;
  return failure_;
}

}  // namespace railwise::verbs
