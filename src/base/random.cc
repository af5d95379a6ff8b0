#include "base/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <random>

namespace railwise {

void fillRandom(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), GRND_NONBLOCK);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  if (bytes.empty()) return;
  std::random_device device;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(device());
}

std::string randomHex() {
  std::array<std::byte, 16> bytes;
  fillRandom(bytes);
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte >> 4)];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace railwise
