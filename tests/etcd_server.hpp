// A real etcd of one member, for tests: started in a folder of its own on ports that nobody has, stopped, gone with its
// owner. Where no etcd is installed, whoever asks skips by name.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/apps/process.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

class etcd_server {
 public:
  static bool is_installed() { return std::system("command -v etcd >/dev/null 2>&1") == 0; }

  etcd_server() : etcd_server("127.0.0.1", {"/usr/bin/env"}) {}
  /// At an address, by a command that has it.
  etcd_server(const std::string& address, std::vector<std::string> by)
      : clients_(fmt::format("{}:{}", address, free_port())), peers_(fmt::format("127.0.0.1:{}", free_port())) {
    start(std::move(by));
  }

  /// "etcd://ADDRESS:PORT"
  [[nodiscard]] std::string store() const { return "etcd://" + clients_; }
  /// It answers nobody.
  void stop() const { server_->send(SIGSTOP); }

  static uint16_t free_port() {
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    const bool is_good = ::bind(s, reinterpret_cast<sockaddr*>(&at), bytes) == 0 &&
                         ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &bytes) == 0;
    ::close(s);
    if (!is_good) throw std::runtime_error("etcd: no free port");
    return ntohs(at.sin_port);
  }

 private:
  void start(std::vector<std::string> command) {
    const auto url = [](const std::string& at) { return "http://" + at; };
    command.insert(command.end(),
                   {"etcd", "--data-dir", "data", "--listen-client-urls", url(clients_), "--advertise-client-urls",
                    url(clients_), "--listen-peer-urls", url(peers_), "--initial-advertise-peer-urls", url(peers_),
                    "--initial-cluster", "default=" + url(peers_)});
    server_ = std::make_unique<process>(command, folder_.path());
    if (!server_->wait_for_error("serving insecure client requests")) throw std::runtime_error("etcd did not start");
  }

  scratch_folder folder_;
  std::string clients_, peers_;
  std::unique_ptr<process> server_;
};

}  // namespace troupe::tests
