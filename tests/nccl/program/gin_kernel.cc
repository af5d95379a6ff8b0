#include "gin_kernel.h"

#ifdef HAS_GIN_KERNEL

#include "kernels/device_code.h"

namespace {

#if GIN_HAS_WEAK_SIGNALS
using StrongIncrement = ncclGin_StrongSignalInc;
using StrongAdd = ncclGin_StrongSignalAdd;
using StrongWordIncrement = ncclGin_StrongVASignalInc;
using StrongWordAdd = ncclGin_StrongVASignalAdd;
using WeakIncrement = ncclGin_WeakSignalInc;
using WeakAdd = ncclGin_WeakSignalAdd;
using WeakWordIncrement = ncclGin_WeakVASignalInc;
using WeakWordAdd = ncclGin_WeakVASignalAdd;
using Count = ncclGin_WeakCounterInc;
#else
using StrongIncrement = ncclGin_SignalInc;
using StrongAdd = ncclGin_SignalAdd;
using StrongWordIncrement = ncclGin_VASignalInc;
using StrongWordAdd = ncclGin_VASignalAdd;
using WeakIncrement = StrongIncrement;
using WeakAdd = StrongAdd;
using WeakWordIncrement = StrongWordIncrement;
using WeakWordAdd = StrongWordAdd;
using Count = ncclGin_CounterInc;
#endif

// A block of one thread.
struct OneThread {
  int thread_rank() const { return 0; }
  int size() const { return 1; }
  int num_threads() const { return 1; }
  void sync() {}
};

template <typename Increment, typename Add, typename Use, typename... Where>
void withActionAt(const GinSignal& signal, Use use, Where... where) {
  if (signal.action == GinSignal::Action::kAdd) use(Add{where..., signal.value});
  else use(Increment{where...});
}

// `use` takes what NCCL's device code has for the signal: a type for each kind.
template <typename Use>
void withAction(const GinSignal& signal, Use use) {
  const bool word = signal.word.window != nullptr;
  if (signal.action == GinSignal::Action::kNone) {
    use(ncclGin_None{});
  } else if (word && signal.strong) {
    withActionAt<StrongWordIncrement, StrongWordAdd>(signal, use, signal.word.window, signal.word.offset);
  } else if (word) {
    withActionAt<WeakWordIncrement, WeakWordAdd>(signal, use, signal.word.window, signal.word.offset);
  } else if (signal.strong) {
    withActionAt<StrongIncrement, StrongAdd>(signal, use, signal.index);
  } else {
    withActionAt<WeakIncrement, WeakAdd>(signal, use, signal.index);
  }
}

}  // namespace

struct GinKernel::Device {
  ncclComm_t comm;
  ncclDevComm dev;
  ncclGin gin(int context) const { return ncclGin(dev, context); }
  ncclTeam world() const { return ncclTeamWorld(dev); }
};

GinKernel::GinKernel(const Communicator& on, const Needs& needs) : device_(std::make_unique<Device>()) {
  device_->comm = on.comm;
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  requirements.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
  requirements.ginSignalCount = needs.signals;
  requirements.ginCounterCount = needs.counters;
  requirements.ginContextCount = needs.contexts;
  MUST(ncclDevCommCreate(on.comm, &requirements, &device_->dev));
  if (device_->dev.ginContextCount < static_cast<uint32_t>(needs.contexts))
    stop(1, "too few contexts of GIN");
}

GinKernel::~GinKernel() { MUST(ncclDevCommDestroy(device_->comm, &device_->dev)); }

bool GinKernel::isPossible(const Communicator& on) {
  ncclCommProperties properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  MUST(ncclCommQueryProperties(on.comm, &properties));
  return properties.deviceApiSupport && properties.ginType == NCCL_GIN_TYPE_PROXY;
}

void GinKernel::put(int context, int peer, GinPlace to, GinPlace from, std::size_t bytes,
                    const GinSignal& signal, int counter) const {
  withAction(signal, [&](auto action) {
    const auto with = [&](auto local) {
      device_->gin(context).put(device_->world(), peer, to.window, to.offset, from.window, from.offset, bytes,
                                action, local, OneThread{});
    };
    if (counter == kNoGinCounter) with(ncclGin_None{});
    else with(Count{static_cast<ncclGinCounter_t>(counter)});
  });
}

void GinKernel::signal(int context, int peer, const GinSignal& signal) const {
  withAction(signal,
             [&](auto action) { device_->gin(context).signal(device_->world(), peer, action, OneThread{}); });
}

void GinKernel::putValue(int context, int peer, GinPlace to, uint64_t value, std::size_t bytes,
                         const GinSignal& signal) const {
  withAction(signal, [&](auto action) {
    const auto as = [&](auto typed) {
      device_->gin(context).putValue(device_->world(), peer, to.window, to.offset, typed, action,
                                     OneThread{});
    };
    switch (bytes) {
      case 1:
        return as(static_cast<uint8_t>(value));
      case 2:
        return as(static_cast<uint16_t>(value));
      case 4:
        return as(static_cast<uint32_t>(value));
      case 8:
        return as(value);
      default:
        stop(1, "a value of GIN has 1, 2, 4 or 8 bytes");
    }
  });
}

#if GIN_HAS_GET
void GinKernel::get(int context, int peer, GinPlace from, GinPlace to, std::size_t bytes) const {
  device_->gin(context).get(device_->world(), peer, from.window, from.offset, to.window, to.offset, bytes,
                            OneThread{});
}
#endif

void GinKernel::flush(int context) const { device_->gin(context).flush(OneThread{}); }

uint64_t GinKernel::readSignal(int context, uint32_t index) const {
  return device_->gin(context).readSignal(index);
}

uint64_t GinKernel::readCounter(int context, uint32_t index) const {
  return device_->gin(context).readCounter(index);
}

void GinKernel::resetSignal(int context, uint32_t index) const { device_->gin(context).resetSignal(index); }

void GinKernel::resetCounter(int context, uint32_t index) const { device_->gin(context).resetCounter(index); }

uint64_t GinKernel::readWord(GinPlace word) const {
  return device_->gin(0).readSignal(word.window, word.offset);
}

void GinKernel::resetWord(int context, GinPlace word) const {
  device_->gin(context).resetSignal(word.window, word.offset);
}

std::size_t GinKernel::queueEntries() const {
  return static_cast<const ncclGinProxyGpuCtx_t*>(device_->dev.ginHandles[0])->queueSize;
}

#endif
