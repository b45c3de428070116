#include "tests/launch/local_sshd.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/free_port.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

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
  // If it runs as root, sshd requires a folder in /run, which not every machine has.
  const std::vector<std::string> command =
      ::geteuid() == 0
          ? std::vector<std::string>{"/usr/bin/env", "unshare",
                                     "--mount",      "sh",
                                     "-c",           "mount -t tmpfs none /run && mkdir /run/sshd && " + serve}
          : std::vector<std::string>{"/bin/sh", "-c", serve};
  server_ = std::make_unique<process>(command, folder_);
  if (!server_->wait_for_error("Server listening")) throw std::runtime_error("sshd: " + server_->end().err);
}

void local_sshd::end_connections() const {
  const auto number = [](const std::filesystem::path& p) { return std::atoi(p.filename().c_str()); };
  const auto each_process = [](const auto& f) {
    std::error_code e;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", e))
      if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front())) != 0) f(entry.path());
  };
  const std::string own = (folder_ / "conf").string();
  int server = 0;
  each_process([&](const auto& at) {
    if (scratch_folder::read(at / "cmdline").find(own) != std::string::npos) server = number(at);
  });
  each_process([&](const auto& at) {
    const std::string stat = scratch_folder::read(at / "stat");  // the file has the form: PID (NAME) STATE PARENT ...
    const auto name_ends = stat.rfind(')');
    if (name_ends != std::string::npos && std::atoi(stat.c_str() + name_ends + 4) == server)
      ::kill(number(at), SIGKILL);
  });
}

std::vector<std::string> local_sshd::options() const {
  return {"IdentityFile=" + (folder_ / "me").string(), "IdentitiesOnly=yes", "StrictHostKeyChecking=no",
          "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"};
}

}  // namespace troupe::tests
