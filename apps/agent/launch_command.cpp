#include "apps/agent/launch_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "apps/agent/launched_hosts.hpp"
#include "apps/base/console.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/launch/host_list.hpp"
#include "apps/launch/hostfile.hpp"
#include "apps/run/launch_processes.hpp"
#include "apps/run/launched_train.hpp"
#include "apps/run/train_options.hpp"
#include "core/host_port.hpp"
#include "net/own_address.hpp"

namespace troupe::apps {
namespace {

constexpr uintmax_t hostfile_bytes_max = 16U << 20U;

core::result<std::vector<host_slots>> read_hosts(const std::string& file) {
  std::error_code e;
  const auto bytes = std::filesystem::file_size(file, e);
  std::ifstream in(file, std::ios::binary);
  if (e || !in || bytes > hostfile_bytes_max)
    return core::fail(core::error_kind::bad_input,
                      "--hostfile: wanted a file of at most 16 MiB, got " + file + (e ? ": " + e.message() : ""));
  return read_hostfile(std::string((std::istreambuf_iterator<char>(in)), {}), file);
}

bool is_here(const std::string& host) {
  if (host == "localhost" || host == "::1" || host.starts_with("127.") || host == own_host_name()) return true;
  return std::ranges::any_of(net::own_addresses(), [&](const auto& a) { return a.address == host; });
}

launch_place place_of(const std::vector<host_slots>& hosts, const std::string& file, const std::string& leader,
                      uint16_t port) {
  launch_place p{.launcher = "the hostfile", .told_by = file};
  p.nodes = static_cast<uint32_t>(hosts.size());
  p.tasks = 0;
  for (const auto& h : hosts) {
    p.tasks_of.push_back(static_cast<uint32_t>(h.slots.size()));
    p.tasks += p.tasks_of.back();
    p.names.push_back(h.name);
  }
  p.tasks_are_ranks = true;
  p.leader = leader.empty() ? hosts.front().name : leader;
  p.port = port;
  return p;
}

/// Refuses options that have no effect for this job: options for several hosts if the job has one host, options for the
/// address if the file has an address, and options of ssh if ssh is not used.
core::result<void> check_options(const std::vector<std::string>& given, const std::vector<host_slots>& hosts,
                                 const launched_job& job, const std::string& leader) {
  const bool has_several = hosts.size() > 1;
  const bool has_own_address =
      std::ranges::none_of(job.settings, [](const std::string& s) { return s.starts_with("cluster.listen="); });
  const auto at = core::read_host_port(job.leader);
  // true if --master-addr has an effect: the file sets no address, or its address means every interface of the host
  const bool is_met_there = !has_own_address || (at && at->host == leader);
  return refuse_idle(
      given,
      {{has_several, "several hosts, and one is left", {"--master-addr", "--master-port", "--program"}},
       {!has_own_address, "a file without cluster.listen", {"--master-port"}},
       {is_met_there, "a file whose cluster.listen does not say where others reach the first host", {"--master-addr"}},
       {has_several || !is_here(hosts.front().name), "hosts that ssh reaches", {"--ssh-port", "--ssh-option"}}});
}

}  // namespace

int launch_command::run(const std::filesystem::path& programs) const {
  const auto bad = [](const std::string& text) { return failed({core::error_kind::bad_input, text}); };
  auto hosts = read_hosts(hostfile_);
  if (hosts) hosts = filter_hosts(std::move(*hosts), include_, exclude_);
  if (!hosts) return failed(hosts.error());
  if (!leader_.empty())
    if (const auto ok = check_host_name(leader_); !ok) return failed(ok.error().in("--master-addr"));
  if (hosts->size() > 1 && leader_.empty() && hosts->front().name == "localhost")
    return bad(
        "--hostfile: wanted a name of the first host by which the others reach it, or --master-addr, got localhost");
  std::vector<std::string> train{(programs / "troupe").string(), "train"};
  for (const auto& x : command_->remaining()) train.push_back(x);
  std::vector<char*> pointers;
  for (auto& x : train) pointers.push_back(x.data());
  pointers.push_back(nullptr);
  const auto read = read_train_arguments(static_cast<int>(train.size()), pointers.data());
  if (!read && train.size() > 2)
    return bad(fmt::format("the options of `troupe train`: {}; see troupe train --help", read.error().text));
  const auto place = place_of(*hosts, hostfile_, leader_, port_);
  const auto job = launched_train_at(place, static_cast<int>(train.size()), pointers.data());
  if (!job) {
    std::fprintf(stderr, "%s", job.error().text.c_str());
    return exit_code_of(job.error());
  }
  if (!*job)
    return bad("wanted a file and options of `troupe train` after those of `troupe launch`; see troupe train --help");
  if (const auto ok = check_options(given_in(*command_), *hosts, (*job)->job, leader_); !ok) return failed(ok.error());
  const auto& arguments = (*job)->arguments;
  launched_hosts all;
  const console out;  // relays the output, so that a reader that stops reading does not block the hosts
  const auto signals = take_signals();
  std::error_code e;
  const auto folder = std::filesystem::current_path(e).string();
  const auto leader = core::read_host_port((*job)->job.leader.empty() ? "localhost:1" : (*job)->job.leader);
  for (size_t n = 0; n < hosts->size(); ++n) {
    const auto& h = (*hosts)[n];
    const std::filesystem::path program =
        program_.empty() || n == 0 ? programs / "troupe" : std::filesystem::path(program_);
    remote_program p{.folder = folder,
                     .variables = launch_variables(static_cast<uint32_t>(n), static_cast<uint32_t>(hosts->size()),
                                                   leader->host, leader->port),
                     .command = {}};
    if (!h.is_whole) p.variables.emplace_back("CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(h.slots, ",")));
    p.command = {(program.parent_path() / "troupe-agent").string(), "hold", n == 0 ? "--leads" : "--tell",
                 program.string()};
    p.command.insert(p.command.end(), arguments.begin() + 1, arguments.end());
    std::vector<std::string> command{"/usr/bin/env"};
    for (const auto& [name, value] : p.variables) command.push_back(name + "=" + value);
    command.insert(command.end(), p.command.begin(), p.command.end());
    const bool is_local = n == 0 && is_here(h.name);
    if (is_local && !h.user.empty())
      std::fprintf(stderr, "troupe: %s is this machine: the job runs here as the user who called this program\n",
                   h.destination().c_str());
    if (const auto ok = all.start(h.name, is_local ? command : ssh_command(h.destination(), p, ssh_)); !ok)
      return failed(ok.error());
  }
  return all.run(signals->number());
}

}  // namespace troupe::apps
