// Finds ports of this machine for servers that tests start.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace troupe::tests {

/// Returns a port on which no process listens. All ports returned are below 32768, where the ports begin that the
/// kernel assigns to connections. Each call returns another port; the first one depends on the process id, so that
/// tests that run at the same time use different ports. Throws if no port is free.
inline uint16_t free_port() {
  constexpr uint32_t first = 10'000, count = 20'000;
  static std::atomic<uint32_t> next{static_cast<uint32_t>(::getpid()) * 37};
  for (uint32_t tries = 0; tries < count; ++tries) {
    const auto port = static_cast<uint16_t>(first + next++ % count);
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int again = 1;  // lets a server listen on a port whose earlier connections are still in TIME_WAIT
    (void)::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    const bool is_free = ::bind(s, reinterpret_cast<::sockaddr*>(&at), sizeof at) == 0;
    ::close(s);
    if (is_free) return port;
  }
  throw std::runtime_error("no free port");
}

}  // namespace troupe::tests
