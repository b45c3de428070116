// Runs a real etcd of one member for tests, in a folder of its own and on unused ports. The destructor ends the server.
// Tests call `is_installed` first; on a machine without etcd they are skipped by name.
#pragma once

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/apps/process.hpp"
#include "tests/free_port.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

class etcd_server {
 public:
  static bool is_installed() { return std::system("command -v etcd >/dev/null 2>&1") == 0; }

  struct settings {
    std::string address = "127.0.0.1";
    /// Prefix of the command line of etcd, for example a command that runs it in the network namespace of `address`.
    std::vector<std::string> by = {"/usr/bin/env"};
    /// Folder of a host's certificate; clients then need a certificate of the same authority. Empty: the server uses no
    /// TLS.
    std::string tls{};
  };
  etcd_server() : etcd_server(settings{}) {}
  explicit etcd_server(settings s)
      : clients_(fmt::format("{}:{}", s.address, free_port())),
        peers_(fmt::format("127.0.0.1:{}", free_port())),
        scheme_(s.tls.empty() ? "etcd" : "etcds") {
    start(std::move(s));
  }

  /// Returns "etcd://ADDRESS:PORT", or "etcds://ADDRESS:PORT" with TLS.
  [[nodiscard]] std::string store() const { return fmt::format("{}://{}", scheme_, clients_); }
  /// Stops the server with SIGSTOP: connections stay open and no request is answered.
  void stop() const { server_->send(SIGSTOP); }

 private:
  void start(settings s) {
    const std::string clients = (s.tls.empty() ? "http://" : "https://") + clients_, peers = "http://" + peers_;
    auto& command = s.by;
    command.insert(command.end(), {"etcd", "--data-dir", "data", "--listen-client-urls", clients,
                                   "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                                   "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers});
    if (!s.tls.empty())
      command.insert(command.end(), {"--cert-file", s.tls + "/host.crt", "--key-file", s.tls + "/host.key",
                                     "--client-cert-auth", "--trusted-ca-file", s.tls + "/ca.crt"});
    server_ = std::make_unique<process>(command, folder_.path());
    if (!server_->wait_for_error(s.tls.empty() ? "serving insecure client requests" : "serving client requests"))
      throw std::runtime_error("etcd did not start");
  }

  scratch_folder folder_;
  std::string clients_, peers_, scheme_;
  std::unique_ptr<process> server_;
};

}  // namespace troupe::tests
