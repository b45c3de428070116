#include "tests/machines/job_on_hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "tests/machines/host_commands.hpp"

namespace troupe::tests {

job_on_hosts::job_on_hosts(command_of_job job, const hosts* network) : job_(std::move(job)), network_(network) {
  make_certificates(job_.troupe, folder_.path(), {names.begin(), names.end()});
  start_first();
  for (uint32_t h = 1; h < number; ++h) start_agent(h);
}

void job_on_hosts::start_first() {
  first_ = std::make_unique<process>(on(0, train("lost", first_host_keys(listens_at()))), folder_.path());
}

void job_on_hosts::kill_first() {
  const auto all = places();
  first_->send(SIGKILL);
  if (const auto at = all.find(0); at != all.end()) ::kill(at->second, SIGKILL);
  (void)first_->end();
}

std::string job_on_hosts::listens_at() const {
  return network_ != nullptr ? hosts::address(0) + ":4400" : fmt::format("127.0.0.1:{}", port_);
}

std::vector<std::string> job_on_hosts::train(const char* output, const std::vector<std::string>& more) const {
  std::vector<std::string> out{job_.troupe, "train", job_.file, "--fresh"};
  if (job_.as_json) out.emplace_back("--json");
  set_keys(out, job_.keys);
  set_keys(out, {fmt::format("output={}", output), "telemetry.json_lines=true"});
  set_keys(out, more);
  return out;
}

std::vector<std::string> job_on_hosts::on(uint32_t host, std::vector<std::string> command) const {
  return network_ != nullptr ? hosts::on(host, std::move(command)) : command;
}

void job_on_hosts::start_agent(uint32_t host) {
  auto command = agent_command(job_.troupe, listens_at(), names[0], fmt::format("certs/{}", names[host]));
  if (!job_.name.empty()) command.insert(command.end(), {"--job", job_.name});
  agents_[host] = std::make_unique<process>(on(host, command), folder_.path());
}

finished job_on_hosts::end_agent(uint32_t host) {
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  (void)agents_[host]->wait_until_takes(SIGTERM);
  agents_[host]->send(SIGTERM);
  auto out = agents_[host]->end();
  const bool waited = out.code == 128 + SIGTERM && out.err.find("waits for") != std::string::npos;
  if (waited) out.code = 0;
  return out;
}

void job_on_hosts::cut(uint32_t host) {
  if (network_ != nullptr) return network_->cut(host);
  agents_[host]->send(SIGSTOP);
  for (const auto& [place, pid] : places())
    if (place == host) stopped_.push_back(pid);
  for (const pid_t pid : stopped_) ::kill(pid, SIGSTOP);
}

void job_on_hosts::heal(uint32_t host) {
  if (network_ != nullptr) return network_->heal(host);
  for (const pid_t pid : stopped_) ::kill(pid, SIGCONT);
  stopped_.clear();
  agents_[host]->send(SIGCONT);
}

// The loop retries, because no process answers between two terms.
void job_on_hosts::stop() const {
  for (int tries = 0; tries < 100; ++tries) {
    if (run({job_.troupe, "stop", "lost"}, folder_.path()).code == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw std::runtime_error("nobody leads the job that could stop it");
}

std::optional<std::string> job_on_hosts::difference_from_twin(const std::string& degrees) const {
  const auto lost = steps_of(folder_ / "lost");
  if (lost.empty()) return "no step was recorded";
  auto command =
      train("twin", {"cluster.hosts=[]", "cluster.processes=one", fmt::format("steps={}", lost.rbegin()->first)});
  command.insert(command.end(), {"--degrees", degrees});
  const auto twin = process(command, folder_.path()).end(std::chrono::seconds(300));
  if (twin.code != 0) return "the undisturbed run: " + twin.err;
  return first_difference(steps_of(folder_ / "twin"), lost);
}

std::string job_on_hosts::left_behind() const {
  std::string out;
  for (const auto& [place, pid] : places()) out += fmt::format("process {} of place {}; ", pid, place);
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder_.path())) {
    const std::string name = e.path().filename();
    if (name == ".lock") continue;  // every folder of checkpoints keeps its file .lock
    if (e.is_socket() || name.ends_with(".lock") || name.find(".writing") != std::string::npos ||
        name.ends_with(".tmp"))
      out += e.path().string() + "; ";
  }
  for (const auto& name : named_memory())
    if (!memory_before_.contains(name)) out += "/dev/shm/" + name + "; ";
  return out;
}

std::set<std::string> job_on_hosts::named_memory() {
  std::set<std::string> out;
  for (const auto& e : std::filesystem::directory_iterator("/dev/shm"))
    if (const std::string name = e.path().filename();
        name.find("troupe") != std::string::npos && !name.starts_with("troupe-test-"))
      out.insert(name);
  return out;
}

}  // namespace troupe::tests
