// Measures transfers between two processes of this machine over TLS with a term's secret: bytes per second and their
// cost. The child is a process of its own; transfers go in one direction, one after the other, as in a collective.
//
// Usage: bench_net [SECONDS]. Prints a line of JSON for each size. `cpu_s_per_GB`: processor seconds of both processes.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "net/tls_mover.hpp"

namespace {

using namespace troupe;
using namespace troupe::net;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "bench_net: %s\n", why.c_str());
  std::_Exit(1);
}

std::unique_ptr<tls_mover> open_mover(const term_secret& secret, uint32_t place) {
  const term_key key{secret, "bench", 1, place};
  auto out = tls_mover::open({key, "127.0.0.1"});
  if (!out) fail(out.error().text);
  return std::move(*out);
}

/// Starts one transfer and waits until it has ended.
void wait_for(auto start) {
  std::promise<core::result<void>> done;
  start([&](const core::result<void>& how) { done.set_value(how); });
  if (const auto how = done.get_future().get(); !how) fail(how.error().text);
}

double used_seconds(int who) {
  rusage u{};
  ::getrusage(who, &u);
  return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/// Runs the receiving process. In each round, a first transfer of 16 bytes contains the size and the number of the
/// following transfers; the process ends after a round with number 0.
void receive_all(const term_secret& secret, uint16_t port) {
  const auto mover = open_mover(secret, 1);
  if (auto ok = mover->connect({{0, {"127.0.0.1", port}}}); !ok) fail(ok.error().text);
  std::vector<std::byte> memory;  // resized in the first round of a size, which is not timed
  for (uint64_t round = 0;; ++round) {
    std::array<uint64_t, 2> order{};  // size in bytes and number of the following transfers
    wait_for([&](auto tell) { mover->receive(0, {0, round, 0}, std::as_writable_bytes(std::span(order)), tell); });
    memory.resize(order[0]);
    for (uint64_t i = 0; i < order[1]; ++i)
      wait_for([&](auto tell) { mover->receive(0, {1, round, i}, memory, tell); });
    wait_for([&](auto tell) { mover->send(0, {2, round, 0}, std::as_bytes(std::span(order)), tell); });
    if (order[1] == 0) return;
  }
}

double send_all(tls_mover& mover, uint64_t round, const std::vector<std::byte>& memory, uint64_t count) {
  std::array<uint64_t, 2> order{memory.size(), count};
  const int64_t begin = core::now_ns();
  wait_for([&](auto tell) { mover.send(1, {0, round, 0}, std::as_bytes(std::span(order)), tell); });
  for (uint64_t i = 0; i < count; ++i) wait_for([&](auto tell) { mover.send(1, {1, round, i}, memory, tell); });
  wait_for([&](auto tell) { mover.receive(1, {2, round, 0}, std::as_writable_bytes(std::span(order)), tell); });
  return 1e-9 * double(core::now_ns() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const auto secret = term_secret::draw();
  if (!secret) fail(secret.error().text);
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) fail("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    uint16_t port = 0;
    if (::read(pipe[0], &port, sizeof port) == sizeof port) receive_all(*secret, port);
    std::_Exit(0);
  }
  const auto mover = open_mover(*secret, 0);
  const uint16_t port = mover->port();
  if (::write(pipe[1], &port, sizeof port) != sizeof port) fail("no pipe");
  if (auto ok = mover->connect({{1, {}}}); !ok) fail(ok.error().text);
  uint64_t round = 0;
  std::string child_stat = fmt::format("/proc/{}/stat", child);
  const auto child_seconds = [&] {
    unsigned long user = 0, system = 0;
    std::FILE* const f = std::fopen(child_stat.c_str(), "r");
    if (f != nullptr) {
      (void)!std::fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
      std::fclose(f);
    }
    return double(user + system) / double(::sysconf(_SC_CLK_TCK));
  };
  for (const uint64_t mebibytes : {1, 16, 64}) {
    const uint64_t bytes = mebibytes << 20;
    const std::vector<std::byte> memory(bytes, std::byte{1});
    const double once = send_all(*mover, round++, memory, 4) / 4;
    const auto count = static_cast<uint64_t>(std::max(4.0, seconds / once));
    const double used = used_seconds(RUSAGE_SELF) + child_seconds();
    const double took = send_all(*mover, round++, memory, count);
    const double more = used_seconds(RUSAGE_SELF) + child_seconds() - used, gigabytes = 1e-9 * double(bytes * count);
    std::printf("{\"what\":\"troupe-tls\",\"MiB\":%llu,\"transfers\":%llu,\"MB_per_s\":%.0f,\"cpu_s_per_GB\":%.2f}\n",
                static_cast<unsigned long long>(mebibytes), static_cast<unsigned long long>(count),
                1e3 * gigabytes / took, more / gigabytes);
    std::fflush(stdout);
  }
  send_all(*mover, round, {}, 0);
  ::waitpid(child, nullptr, 0);
  return 0;
}
