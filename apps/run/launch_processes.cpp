#include "apps/run/launch_processes.hpp"

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "actors/processes/swap_folder_name.hpp"
#include "apps/base/console.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/load_keys.hpp"
#include "apps/base/signals.hpp"
#include "apps/page/page_access.hpp"
#include "apps/run/asked_degrees.hpp"
#include "apps/run/degrees_first.hpp"
#include "apps/run/launched_train.hpp"
#include "apps/run/process_log.hpp"
#include "apps/run/train_options.hpp"
#include "cluster/job_file.hpp"
#include "cluster/process.hpp"
#include "config/document/files.hpp"
#include "config/document/path_text.hpp"
#include "config/explain.hpp"
#include "job/supervised.hpp"
#include "storage/swap/swap_space.hpp"

namespace troupe::apps {
namespace {

/// True if the text of the file or an argument contains a word of the keys for processes and machines. Most jobs
/// contain none, and their file is then not parsed here.
bool names_processes(const train_arguments& a) {
  const auto has_key = [](const std::string& text) {
    return text.find("processes") != std::string::npos || text.find("hosts") != std::string::npos;
  };
  if (std::ranges::any_of(a.set, has_key)) return true;
  std::error_code e;
  if (!std::filesystem::is_regular_file(a.file, e)) return false;  // a pipe is left unread for the parser of the file
  std::ifstream in(a.file, std::ios::binary);
  return has_key(std::string((std::istreambuf_iterator<char>(in)), {}));
}

/// Returns the arguments of `train` if its configuration is valid and uses several processes; else nothing. Prints
/// nothing.
std::optional<train_arguments> wants_processes(int argc, char** argv) {
  auto a = read_train_arguments(argc, argv);
  if (!a || !names_processes(*a)) return std::nullopt;
  const auto loaded = read_configuration(*a, a->steps);
  if (!loaded || !loaded->config.cluster.is_on()) return std::nullopt;
  return std::move(*a);
}

/// Owns the folder that contains each process's swap files, and removes files that killed processes have left there.
class swap_places {
 public:
  swap_places(const config::job_config& c, uint32_t places) : folder_(c.swap_folder()), places_(places) {
    if (!c.zero_optimization.swaps()) return;
    std::error_code e;
    // An error is ignored, because the process that swaps into this folder reports it
    made_ = std::filesystem::create_directory(folder_, e);
  }
  swap_places(const swap_places&) = delete;
  swap_places& operator=(const swap_places&) = delete;
  ~swap_places() {
    std::error_code e;
    for (uint32_t p = 0; p < places_; ++p) {
      const auto one = folder_ / actors::swap_folder_name(p);
      if (!std::filesystem::exists(one, e)) continue;
      // opening a swap space removes files that dead processes left in its folder
      (void)storage::swap_space::open({.folder = one, .wanted = {}});
      std::filesystem::remove(one, e);
    }
    if (made_) std::filesystem::remove(folder_, e);
  }

 private:
  std::filesystem::path folder_;
  uint32_t places_;
  bool made_ = false;
};

/// Stores the job's order for its processes on all machines in `out`, with the effective configuration in place of the
/// file: a restarted process trains with the same settings even if the user has edited the file, and paths and `--set`
/// mean the same on all hosts. Keys of checkpoint.load from the command line stay arguments.
void describe_job(const train_arguments& a, const config::loaded& loaded, std::span<const std::string> argv,
                  cluster::launch_options& out) {
  out.order.file = config::effective_yaml(loaded);
  std::error_code e;
  out.order.folder = std::filesystem::current_path(e).string();
  for (size_t i = 0; i < argv.size(); ++i) {
    const std::string& one = argv[i];
    if (one == "--set") ++i;
    if (one.starts_with("--set") || one == "--strict") continue;
    // CLI11 has expanded `~` and variables in the name that it stored in `a`.
    const bool is_file = i >= 2 && out.order.file_argument == 0 &&
                         config::expanded_path(one, config::current_folder()).value_or(one) == a.file;
    if (is_file) out.order.file_argument = static_cast<uint32_t>(out.order.arguments.size());
    // Path of the job's file that the user typed, if this host continues a job as leader; else empty.
    const auto name = is_file ? cluster::name_of_job_file(one) : std::string();
    out.order.arguments.push_back(name.empty() ? one : name);
  }
  for (const std::string& name : load_keys_by_hand(loaded)) {
    const std::string key = "checkpoint.load." + name;
    const auto given = std::ranges::find(loaded.values, key, &config::effective_value::key);
    out.order.arguments.insert(out.order.arguments.end(),
                               {"--set", key + "=" + (given->value == "none" ? "" : given->value)});
  }
}

}  // namespace

void raise_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

cluster::shared_descriptor take_signals(std::initializer_list<int> except) {
  ignore_unused_signals();
  sigset_t passed = signals_that_end_or_save();
  for (const int number : except) sigdelset(&passed, number);
  ::sigprocmask(SIG_BLOCK, &passed, nullptr);
  return cluster::own(::signalfd(-1, &passed, SFD_NONBLOCK | SFD_CLOEXEC));
}

namespace {

/// Implements launch_processes(). `names_hosts`: the certificates contain the names of the file's hosts.
std::optional<int> launch(int argc, char** argv, const std::filesystem::path& program, const agents_opener& open_agents,
                          bool names_hosts) {
  auto a = wants_processes(argc, argv);
  if (!a) return std::nullopt;
  auto loaded = load_configuration(*a, a->steps, intent::run);
  if (!loaded) return 2;
  if (auto ok = check_page(loaded->config.cluster); !ok) return failed(ok.error());
  const bool spans_hosts = !loaded->config.cluster.hosts.empty();
  if (spans_hosts && !open_agents) {
    const auto other = program.parent_path() / "troupe-agent";
    ::execv(other.c_str(), argv);
    return failed(
        {core::error_kind::bad_input, "cluster.hosts: cannot execute " + other.string() + ": " + std::strerror(errno)});
  }
  const config::loaded asked = *loaded;  // the configuration that the file defines for all machines
  std::vector<std::string> arguments(argv, argv + argc);
  if (!loaded->config.open_degrees.empty()) {
    auto chosen = choose_degrees_first(program, arguments);
    if (const int* const code = std::get_if<int>(&chosen)) return *code;
    for (auto& degree : std::get<0>(chosen)) {
      arguments.insert(arguments.end(), {"--set", degree});
      a->set.push_back(std::move(degree));
    }
    loaded = load_configuration(*a, a->steps, intent::run);
    if (!loaded) return 2;
  }
  cluster::launch_options options;
  auto config = loaded->config;
  if (!a->degrees.empty()) {
    const auto changes = asked_degrees(a->degrees, config);
    if (!changes) return failed(changes.error().in("--degrees"));
    warn_of_unreached(*changes, config.steps);
    if (const uint32_t first = changes->front().data; first != config.parallel.data) {
      const auto with_first = load_configuration(at_data_ranks(*a, config, first), a->steps, intent::run);
      if (!with_first) return 2;
      config = with_first->config;
    }
  }
  options.job = job::supervised(config);
  options.program = program;
  options.arguments = arguments;
  const auto log = std::make_shared<process_log>(
      config.output.empty() ? config.output : std::filesystem::absolute(config.output), "supervisor");
  options.say = [log](const std::string& line) {
    print_error_line("troupe: " + line);
    log->line(line);
  };
  raise_descriptors();
  console out;  // relays the output, so that a reader that stops reading does not block the supervisor
  options.signals = take_signals();
  agents_of_hosts agents;
  if (spans_hosts) {
    auto opened = open_agents(asked, names_hosts, options.say);
    if (!opened) return failed(opened.error());
    agents = std::move(*opened);
    if (agents.arrivals == nullptr) return 1;
    ::setenv(cluster::address_variable, agents.address.c_str(), 1);
    options.replaced = agents.replaced;
    options.watch = agents.watch;
    options.job.lost = agents.lost;
    options.job.gathers_ns = agents.gathers_ns;
    options.agents = agents.arrivals.get();
    options.job.secret = agents.secret;
  }
  describe_job(*a, *loaded, arguments, options);
  const swap_places swaps(config, options.job.places());
  const auto code = cluster::launch(options);
  if (code) return *code;
  const bool is_replaced = options.replaced && code.error().kind == core::error_kind::peer_lost;
  // Prints nothing if another host has taken the lead, because lead_part.cpp handles that
  return is_replaced ? 1 : failed(code.error());
}

}  // namespace

std::optional<int> launch_processes(int argc, char** argv, const std::filesystem::path& program,
                                    const agents_opener& open_agents) {
  if (std::getenv(cluster::link_variable) != nullptr) return std::nullopt;
  const auto started = launched_train_of(argc, argv);
  if (!started) {
    std::fprintf(stderr, "%s", started.error().text.c_str());
    return exit_code_of(started.error());
  }
  if (!*started) return launch(argc, argv, program, open_agents, true);
  const launched_train& by = **started;
  if (by.job.role == launched_job::part::follower) return 0;
  const bool is_agent = by.job.role == launched_job::part::agent;
  // Executes troupe-agent, which can talk to other machines and reads the launcher's environment itself
  if (is_agent || (!by.job.leader.empty() && !open_agents)) {
    const auto other = program.parent_path() / "troupe-agent";
    execute(other, {argv, argv + argc});
    return failed({core::error_kind::bad_input, "cannot execute " + other.string() + ": " + std::strerror(errno)});
  }
  auto all = by.arguments;
  std::vector<char*> pointers;
  for (auto& x : all) pointers.push_back(x.data());
  const auto count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  if (const auto code = launch(count, pointers.data(), program, open_agents, by.job.names_hosts)) return code;
  execute(program, by.arguments);  // the job has one process, or an error that `program` reports better
  return failed({core::error_kind::bad_input, "cannot execute " + program.string() + ": " + std::strerror(errno)});
}

}  // namespace troupe::apps
