#include "tests/launch/local_sshd.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace troupe::tests {

uint16_t free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t bytes = sizeof at;
  const bool good = ::bind(s, reinterpret_cast<::sockaddr*>(&at), sizeof at) == 0 &&
                    ::getsockname(s, reinterpret_cast<::sockaddr*>(&at), &bytes) == 0;
  ::close(s);
  if (!good) throw std::runtime_error("no free port");
  return ntohs(at.sin_port);
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream in(std::string(path == nullptr ? "" : path) + ":/usr/bin:/usr/sbin:/sbin");
  for (std::string folder; std::getline(in, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::string local_sshd::missing() {
  for (const char* name : {"sshd", "ssh", "ssh-keygen"})
    if (find_program(name).empty()) return name;
  if (::geteuid() == 0 && run({"/usr/bin/env", "unshare", "--mount", "true"}, "/").code != 0)
    return "a mount namespace for root's sshd";
  return {};
}

local_sshd::local_sshd(const std::filesystem::path& folder, const std::string& address)
    : folder_(folder), port_(free_port()) {
  std::filesystem::create_directories(folder_);
  for (const char* key : {"host", "me"}) {
    const auto made = run({find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", key}, folder_);
    if (made.code != 0) throw std::runtime_error("ssh-keygen: " + made.err);
  }
  std::ofstream(folder_ / "conf") << fmt::format(
      "Port {0}\nListenAddress {1}\nHostKey {2}/host\nAuthorizedKeysFile {2}/me.pub\nPidFile none\nStrictModes no\n"
      "UsePAM no\nPasswordAuthentication no\n",
      port_, address, folder_.string());
  const std::string serve = fmt::format("exec {} -D -e -f {}/conf", find_program("sshd"), folder_.string());
  // Root's sshd wants a folder in /run, which not every machine has.
  const std::vector<std::string> command =
      ::geteuid() == 0
          ? std::vector<std::string>{"/usr/bin/env", "unshare",
                                     "--mount",      "sh",
                                     "-c",           "mount -t tmpfs none /run && mkdir /run/sshd && " + serve}
          : std::vector<std::string>{"/bin/sh", "-c", serve};
  server_ = std::make_unique<process>(command, folder_);
  if (!server_->wait_for_error("Server listening")) throw std::runtime_error("sshd: " + server_->end().err);
}

std::vector<std::string> local_sshd::options() const {
  return {"IdentityFile=" + (folder_ / "me").string(), "IdentitiesOnly=yes", "StrictHostKeyChecking=no",
          "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"};
}

}  // namespace troupe::tests
