// The border of the device: no exception leaves a call, because the program may be written in C, or have a
// C++ library of its own. In practice an exception means that there is no memory, or no thread.
#pragma once

#include <cerrno>
#include <exception>
#include <type_traits>

namespace railwise::softdev {

// Calls body(). After an exception errno is ENOMEM, and the result is null, or `kFailure`: the error
// convention of the function that this is the body of. Not noexcept: a program may cancel a thread that waits
// in a call.
template <int kFailure = ENOMEM, typename Body>
auto guarded(const Body& body) -> decltype(body()) {
  using Answer = decltype(body());
  try {
    return body();
  } catch (const std::exception&) {
    errno = ENOMEM;
    if constexpr (std::is_pointer_v<Answer>) {
      return nullptr;
    } else if constexpr (!std::is_void_v<Answer>) {
      return Answer(kFailure);
    }
  }
}

template <auto kFunction, int kFailure>
struct Guarded;
template <typename Answer, typename... Arguments, Answer (*kFunction)(Arguments...), int kFailure>
struct Guarded<kFunction, kFailure> {
  static Answer call(Arguments... arguments) {
    return guarded<kFailure>([&] { return kFunction(arguments...); });
  }
};

// A pointer to kFunction behind the border.
template <auto kFunction, int kFailure = ENOMEM>
constexpr auto kGuarded = &Guarded<kFunction, kFailure>::call;

}  // namespace railwise::softdev
