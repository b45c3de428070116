#include "tests/fakes/unix_agents.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace troupe::tests {
namespace {

constexpr size_t name_bytes = 32;

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::strncpy(out.sun_path, path.c_str(), sizeof out.sun_path - 1);
  return out;
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

}  // namespace

unix_arrivals::unix_arrivals(const std::filesystem::path& path) : listening_(cluster::own(new_socket())) {
  const auto at = address_of(path);
  (void)::bind(listening_->number(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  (void)::listen(listening_->number(), 16);
}

std::vector<cluster::arrival> unix_arrivals::take() {
  const int came = ::accept4(listening_->number(), nullptr, nullptr, SOCK_CLOEXEC);
  std::array<char, name_bytes> name{};
  if (came < 0 || ::recv(came, name.data(), name.size(), MSG_WAITALL) != static_cast<ssize_t>(name.size())) return {};
  std::vector<cluster::arrival> out;
  out.push_back({name.data(), std::make_unique<cluster::socket_link>(cluster::own(came))});
  return out;
}

std::unique_ptr<cluster::polled_link> join_at(const std::filesystem::path& path, const std::string& host) {
  const auto at = address_of(path);
  auto end = cluster::own(new_socket());
  while (::connect(end->number(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) ::usleep(10'000);
  std::array<char, name_bytes> name{};
  std::strncpy(name.data(), host.c_str(), name.size() - 1);
  (void)!::write(end->number(), name.data(), name.size());
  return std::make_unique<cluster::socket_link>(end);
}

}  // namespace troupe::tests
