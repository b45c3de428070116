#include "apps/run/train.hpp"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/opening/memory_need.hpp"
#include "actors/session/session.hpp"
#include "apps/base/console.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/base/programs.hpp"
#include "apps/plan/open_degrees.hpp"
#include "apps/plan/plan_costs.hpp"
#include "apps/run/degrees_first.hpp"
#include "apps/run/opening_display.hpp"
#include "apps/run/processor_shares.hpp"
#include "apps/run/run_sentences.hpp"
#include "apps/run/training.hpp"
#include "cluster/process.hpp"
#include "config/explain.hpp"
#include "config/keys/values.hpp"
#include "config/open_degrees.hpp"
#include "config/sections/cluster_config.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "models/cuda/open.hpp"
#include "net/own_address.hpp"
#include "storage/files/digest.hpp"

namespace troupe::apps {
namespace {

/// Limit in nanoseconds of the time in which a process must end after its parent has ended.
constexpr int64_t orphan_ns_max = 10'000'000'000;

/// Ends a process of a job that outlives its parent: a rank may hang where nothing interrupts it (a driver, a disk),
/// with locks that its successor needs.
class orphan_watch {
 public:
  /// Starts the thread. `place`: number of this process, for the error message.
  explicit orphan_watch(uint32_t place);
  ~orphan_watch();
  orphan_watch(const orphan_watch&) = delete;
  orphan_watch& operator=(const orphan_watch&) = delete;

 private:
  void watch(uint32_t place);

  const pid_t parent_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::thread thread_;
};

constexpr auto look_every = std::chrono::milliseconds(500);
/// Time for the console's thread to write the message before the exit; a longer wait could last forever without a
/// reader.
constexpr auto said_within = std::chrono::milliseconds(100);

orphan_watch::orphan_watch(uint32_t place) : parent_(::getppid()), thread_([this, place] { watch(place); }) {}

orphan_watch::~orphan_watch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  thread_.join();
}

void orphan_watch::watch(uint32_t place) {
  int64_t since_ns = 0;
  for (std::unique_lock lock(mutex_); !wakes_.wait_for(lock, look_every, [this] { return ends_; });) {
    if (::getppid() == parent_) continue;
    if (since_ns == 0) since_ns = core::now_ns();
    if (core::now_ns() - since_ns < orphan_ns_max) continue;
    std::fprintf(stderr, "troupe: error: process %u: its supervisor has ended, and it has not ended within %lld s\n",
                 place, static_cast<long long>(orphan_ns_max / 1'000'000'000));
    std::this_thread::sleep_for(said_within);
    ::_exit(1);
  }
}

/// In a process that an agent has started, stores the address of `bind` or of the interface in the environment variable
/// cluster::address_variable, which the session reads. If neither key is set, the address that the agent has found
/// remains. Errors: bad_input for an interface without an address.
core::result<void> take_own_address(const config::cluster_section& c) {
  const char* const text = std::getenv(cluster::machine_variable);
  // No agent has started this process: only agents set this variable
  if (c.hosts.empty() || text == nullptr) return {};
  const auto machine = core::number_of<size_t>(text);
  if (!machine)
    return core::refused(fmt::format("{}: wanted the number of a host, got '{}'", cluster::machine_variable, text));
  TROUPE_ASSIGN(const auto own,
                net::chosen_address(*machine < c.hosts.size() ? c.hosts[*machine].bind : "", c.interface, ""));
  if (!own.empty()) ::setenv(cluster::address_variable, own.c_str(), 1);
  return {};
}

/// Returns the arguments with a key of the configuration added for each flag that changes how a checkpoint is loaded.
train_arguments with_load_keys(train_arguments a) {
  const auto key = [&a](const char* name, const std::string& value) {
    a.set.push_back(fmt::format("checkpoint.load.{}={}", name, value));
  };
  if (!a.tag.empty()) key("tag", config::quoted(a.tag));
  if (a.load_module_only) key("module_only", "true");
  if (a.no_load_optimizer_states) key("optimizer_states", "false");
  if (a.no_load_lr_scheduler_states) key("lr_scheduler_states", "false");
  if (a.no_load_strict) key("strict", "false");
  if (a.fallback_to_previous) key("fallback_to_previous", "true");
  if (a.changed_batch) key("changed_batch", "true");
  if (a.changed_seed) key("changed_seed", "true");
  if (a.changed_data) key("changed_data", "true");
  if (a.dequantise) a.set.emplace_back("model.dequantise=true");
  return a;
}

// Returns a problem if the job's model states do not fit into memory. Called for a job whose batches do not fit, so
// that the user gets both problems at once. Uses the smallest batches, because states do not depend on batches.
std::vector<config::key_problem> states_beyond_memory(config::job_config job) {
  job.train_micro_batch_size_per_gpu = job.gradient_accumulation_steps = 1;
  core::result<void> fits;
  const auto sized = [&fits](const job::blueprint& b) -> core::result<void> {
    fits = actors::check_memory(b);
    return core::fail(core::error_kind::stopped, "the sizes are known");
  };
  (void)job::make_blueprint(std::make_shared<const config::job_config>(std::move(job)), {}, nullptr, {.sized = sized});
  if (fits) return {};
  return {{"", fits.error().text}};
}

/// In a process that `troupe train` has started: restricts it to its part of the processors, and returns its link to
/// the supervisor, through the descriptor in `at`.
std::shared_ptr<cluster::process> take_link(const config::loaded& loaded, const cluster::link_place& at) {
  const auto& c = loaded.config.cluster;
  take_processor_share(at.place, c.processes_for(loaded.config.parallel.ranks()));
  const auto digest = storage::digest_of(config::effective_yaml(loaded));
  return std::make_shared<cluster::process>(
      cluster::own(at.descriptor),
      cluster::process_setup{at.place, static_cast<int64_t>(c.lost_after_s * 1e9), TROUPE_VERSION,
                             fmt::format("{:016x}{:016x}", digest.high, digest.low)});
}

/// Chooses the degrees that the job leaves open, by `kept` or else usual rates, and prints them. Returns the exit code
/// if there is no valid choice.
std::optional<int> take_degrees(const train_arguments& a, config::loaded& loaded,
                                const std::optional<job::model_of_kept>& kept, const interrupts& stop) {
  if (loaded.config.open_degrees.empty()) return std::nullopt;
  opening_display display(a.verbosity);
  actors::session_options options{.config = std::make_shared<const config::job_config>(loaded.config)};
  options.kept_costs = kept;
  options.hooks.on_opening = [&](const actors::opening_progress& p) {
    display.show(p);
    return !stop.requested();
  };
  const auto chosen = actors::session::choose_degrees(options);
  display.clear();
  if (!chosen) return failed_at(chosen.error(), loaded);
  config::take_degrees(chosen->taken, loaded);
  const auto style = style_of(a);
  if (style == output_style::bar || style == output_style::lines) {
    std::printf("%sdegrees: %s\n", chosen->table.c_str(), chosen->reason.c_str());
  } else if (style == output_style::json) {
    std::printf("{\"event\":\"degrees\",\"chosen\":%s,\"reason\":%s}\n",
                core::json_string(config::degrees_text(chosen->taken.parallel)).c_str(),
                core::json_string(chosen->reason).c_str());
  }
  std::fflush(stdout);
  return std::nullopt;
}

int train_to(console& out, const train_arguments& given) {
  const train_arguments a = with_load_keys(given);
  const auto link = cluster::take_link_place();
  interrupts stop(interrupts::save_requests::taken);
  if (link) stop.pass_to_parent();
  std::optional<orphan_watch> watched;
  if (link) watched.emplace(link->place);  // constructed here, so that its thread inherits the blocked signals
  auto loaded = load_configuration(a, a.steps, intent::run, config::reading::job, states_beyond_memory, !link);
  if (!loaded) return 2;
  // Opens CUDA before any other use of LibTorch, which checks only once whether CUDA is available.
  if (loaded->config.device == core::device_kind::cuda)
    if (const auto ok = models::open_cuda(own_folder(), loaded->config.cuda.devices.front()); !ok)
      return failed(ok.error());
  const auto open = open_degrees_of(*loaded);
  const bool chooses = std::getenv(degrees_variable) != nullptr;
  if (loaded->config.cluster.is_on() && !link && !chooses)
    return failed({core::error_kind::bad_input,
                   "cluster.processes: wanted `troupe train` with a regular file, which each process reads for itself, "
                   "got a pipe or another program"});
  auto kept = kept_costs_of(loaded->config);  // before a process of a job takes its share of the cores
  if (!kept) return failed(kept.error());
  if (const auto refused = take_degrees(a, *loaded, *kept, stop)) return *refused;
  if (const auto chosen = hand_over_degrees(open, *loaded)) return *chosen;
  auto schedule = degree_schedule::read(a.degrees, a, a.steps, *loaded, !link);
  if (!schedule) return 2;
  const config::loaded& first = schedule->is_empty() ? *loaded : schedule->first();
  std::shared_ptr<cluster::process> process;
  if (link) {
    if (const auto own = take_own_address(first.config.cluster); !own) return failed(own.error());
    process = take_link(first, *link);
  }
  const int code = out.end(run_training(a, first, std::move(*kept), std::move(*schedule), process, stop, out));
  if (process != nullptr) process->leave(code);
  return code;
}

}  // namespace

int train(const train_arguments& a) {
  console out;
  return out.end(train_to(out, a));
}

}  // namespace troupe::apps
