// Opens a session: from a configuration to actors that wait for their first step. Owns the order of these phases and
// the contents of each rank's lanes; the called functions do the work of a phase.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "actors/aten_threads.hpp"
#include "actors/calibrate.hpp"
#include "actors/hands/compute_executor.hpp"
#include "actors/hands/device_lane.hpp"
#include "actors/hands/fabric_executor.hpp"
#include "actors/hands/io_executor.hpp"
#include "actors/hands/shard_executor.hpp"
#include "actors/hands/writer_executor.hpp"
#include "actors/host_thread.hpp"
#include "actors/memory/file_port.hpp"
#include "actors/memory/initial_weights.hpp"
#include "actors/memory/state_store.hpp"
#include "actors/processes/swap_folder_name.hpp"
#include "actors/session/checkpoint_load.hpp"
#include "actors/session/host_run.hpp"
#include "actors/session/memory_need.hpp"
#include "actors/session/parts.hpp"
#include "actors/session/thread_room.hpp"
#include "core/cores.hpp"
#include "device/backend.hpp"
#include "device/properties.hpp"
#include "job/compile.hpp"
#include "job/measured_costs.hpp"
#include "models/cuda/open.hpp"
#include "models/host/prepared_modules.hpp"

namespace troupe::actors {
namespace {

/// Limits of the interval at which processes show the pulses of their ranks to the others.
constexpr std::chrono::milliseconds shortest_pulse{10}, longest_pulse{500};

/// Fills the memory of each rank on a thread of its own, because drawing the weights and touching their pages for the
/// first time takes most of the opening. A host's own values are tensors of the host's thread, so that thread reads
/// them, one rank after the other.
core::result<void> fill_memory(const job::blueprint& plan, rank_memories ranks, models::prepared_modules* own,
                               first_weights weights, opening_watch& watch) {
  const fill_watch told{[&] { return watch.wants_end(); }, [&](double share) { watch.share(share); }};
  std::vector<pid_t> threads(ranks.size(), ::gettid());
  const auto fill = [&](rank_memory* m, pid_t& thread) -> core::result<void> {
    thread = ::gettid();
    const bool drawn = weights == first_weights::drawn;
    if (drawn || plan.teaching)
      TROUPE_TRY(fill_initial_weights(plan, *m, own, told, drawn ? filled_values::all : filled_values::of_teacher));
    return fill_initial_moments(*plan.optimizer, *m, told);
  };
  const auto where = own != nullptr ? std::launch::deferred : std::launch::async | std::launch::deferred;
  std::vector<std::future<core::result<void>>> under_way;
  for (size_t i = 0; i < ranks.size(); ++i)
    under_way.push_back(std::async(where, fill, ranks[i].get(), std::ref(threads[i])));
  core::result<void> out;
  for (auto& rank : under_way) {
    watch.wait(rank);
    if (auto did = rank.get(); !did && out) out = did;
  }
  for (const pid_t thread : threads)
    if (thread != ::gettid()) wait_until_gone(thread);
  if (watch.stopped()) return core::fail(watch.why());
  return out;
}

/// Decorates the lanes of a rank whose device has memory of its own: these lanes may leave work on the device when an
/// instruction ends.
void order_on_device(std::vector<std::function<std::unique_ptr<executor>()>>& lanes, const rank_memory& memory,
                     const std::shared_ptr<const device_room>& room) {
  const auto& tiers = memory.plan().options().tiers;
  if (!tiers.apart) return;
  for (uint32_t seat = 1; seat < lanes.size(); ++seat) {
    const auto lane = seat < plan::num_lanes ? static_cast<plan::lane>(seat) : plan::lane::compute;
    lanes[seat] = [make = std::move(lanes[seat]), device = memory.device(), use = use_of(lane, tiers), room] {
      return std::make_unique<device_lane>(make(), device, use, room);
    };
  }
}

std::vector<bool> computed_units(const std::shared_ptr<const plan::job_layout>& layout, uint32_t rank) {
  std::vector<bool> out;
  for (uint32_t u = 0; u < layout->table->units.size(); ++u) out.push_back(layout->computes(rank, u));
  return out;
}

}  // namespace

core::result<void> session::parts::take_memory(first_weights weights, opening_watch& watch) {
  TROUPE_TRY(watch.begin("taking memory"));
  memory.room = std::make_shared<const device_room>(room_of(plan));
  if (on_gpu != nullptr) TROUPE_TRY(on_gpu->share_memory(memory.room->left_bytes()));
  TROUPE_ASSIGN(auto trains, plan.train.all());
  use_programs(plan::plan_choice::train, trains);
  std::vector<std::shared_ptr<const plan::rank_plan>> mine;
  std::vector<uint64_t> segment_bytes;
  for (uint32_t r = 0; r < plan.train.ranks(); ++r) {
    if (processes.is_here(r)) mine.push_back(trains[r]);
    segment_bytes.push_back(shared_layout_of(*trains[r], plan.pools[r]).bytes);
  }
  if (processes.is_on()) {
    auto shared =
        shared_term::make(*processes.link, *processes.members, plan.train.layout(), segment_bytes, processes.secret);
    if (!shared) return core::fail(shared.error());
    processes.shared = std::move(*shared);
  }
  TROUPE_ASSIGN(auto opened, open_swap_files(*plan.config, swap_folder(), mine));
  memory.swaps = std::move(opened);
  if (memory.swaps.space != nullptr)
    for (const auto& line : memory.swaps.space->remarks()) host.warnings->put(line);
  const auto& z = plan.config->zero_optimization;
  const bool pinned =
      z.offload_optimizer.pin_memory || z.offload_param.pin_memory || plan.config->device != core::device_kind::cpu;
  memory_place place{.device = device_of(*plan.config), .windows = pinned ? device::tier::pinned : device::tier::huge};
  bool told_of_locks = false;
  for (uint32_t r = 0; r < plan.train.ranks(); ++r) {
    if (modules.instances != nullptr && processes.is_here(r))
      modules.instances->keep(r, computed_units(trains[r]->layout, r));
    place.is_here = processes.is_here(r);
    if (processes.shared != nullptr) place.shared = processes.shared->segment_of(r);
    TROUPE_ASSIGN(auto m, rank_memory::allocate(trains[r], plan.pools[r], place));
    memory.ranks.push_back(std::move(m));
    if (!place.is_here) continue;
    const auto& own = memory.here.emplace_back(memory.ranks.back());
    if (memory.swaps.space != nullptr) own->use_swap_file(memory.swaps.ranks[memory.here.size() - 1]);
    // Windows that a device or a disk writes to are pinned as far as the limit permits; one warning is given if it does
    // not.
    if (const auto remark = own->unpinned(); remark && !std::exchange(told_of_locks, true)) host.warnings->put(*remark);
  }
  const bool reads_model = !plan.config->model.path.empty();
  TROUPE_TRY(watch.begin(weights == first_weights::from_checkpoint ? "touching memory"
                         : reads_model                             ? "loading weights"
                                                                   : "making first weights"));
  return fill_memory(plan, memory.here, modules.instances.get(), weights, watch);
}

std::filesystem::path session::parts::swap_folder() const {
  const auto folder = plan.config->swap_folder();
  return processes.is_on() ? folder / swap_folder_name(processes.link->place()) : folder;
}

// Makes the session's actor system, after checking that its threads and those of the actors that follow are available:
// neither can then be refused half-way.
core::result<void> session::parts::make_own_system() {
  const uint32_t ranks = plan.train.ranks();
  const size_t lanes = threads_of(processes.is_on() ? ranks / plan.config->cluster.processes_for(ranks) : ranks);
  TROUPE_TRY(check_thread_room(lanes + (actors.system == nullptr ? threads_of_system(own_workers) : 0)));
  if (actors.system != nullptr) return {};
  const host_thread here;
  actors.own = std::make_unique<own_system>();
  actors.system = &actors.own->system;
  return {};
}

core::result<void> session::parts::start_actors() {
  const auto& c = *plan.config;
  const auto& layout = *memory.ranks.front()->plan().layout;
  const auto groups = processes.is_on() ? std::vector<std::shared_ptr<fabric::in_process_group>>()
                                        : in_process_groups(layout, memory.ranks.front()->device());
  const auto join = [&](uint32_t communicator, uint32_t member,
                        const fabric::waker& wake) -> std::shared_ptr<fabric::communicator> {
    if (processes.is_on()) return processes.shared->join(communicator, member, wake);
    return groups[communicator]->join(member, wake);
  };
  const auto pulses = std::make_shared<pulse_board>(plan.train.ranks());
  actors.pulses.show(pulses);
  std::vector<rank_parts> all;
  for (uint32_t r = 0; r < plan.train.ranks(); ++r) {
    if (!processes.is_here(r)) continue;
    auto& x = all.emplace_back();
    const auto joined = join_fabric(x, r, layout.communicators, join);
    x.setup.programs = programs[r];
    x.setup.rules = plan.rules;
    x.setup.patience.stall_after = std::chrono::nanoseconds(static_cast<int64_t>(plan.stall_after_s * 1e9));
    x.setup.patience.longest_predicted =
        std::chrono::nanoseconds(static_cast<int64_t>(plan.longest_instruction_s * 1e9));
    x.setup.pulses = pulses;
    x.setup.votes = {memory.ranks[r]->votes(), memory.ranks[r]->norms(), memory.ranks[r]};
    if (memory.ranks[r]->plan().options().tiers.two_places)
      x.setup.ended = [mine = memory.ranks[r]](step_context& run) {
        if (run.plan().options().mode == plan::mode::train && !run.decide().skipped) mine->change_place();
      };
    x.setup.tell = [box = host.warnings](const std::string& line) { box->put(line); };
    compute_setup stage_setup{.spec = plan.spec,
                              .teaching = plan.teaching,
                              .split = plan.tensor.split,
                              .sequence = plan.tensor.sequence,
                              .rows = c.train_micro_batch_size_per_gpu,
                              .columns = plan.sequence,
                              .seed = c.seed,
                              .ledger_owner = memory.ledger->owner(r),
                              .compression = plan.compression,
                              .masks = memory.masks};
    if (modules.instances != nullptr) stage_setup.own = [from = modules.instances, r] { return from->take(r); };
    TROUPE_ASSIGN(auto stages, make_compute_executors(stage_setup, memory.ranks[r]));
    x.lanes.resize(num_seats(memory.ranks[r]->plan()));
    for (uint32_t chunk = 0; chunk < stages.size(); ++chunk) {
      auto held = std::make_shared<std::unique_ptr<executor>>(std::move(stages[chunk]));
      x.lanes[seat_of(plan::lane::compute, chunk)] = [held] { return std::move(*held); };
    }
    x.lanes[static_cast<size_t>(plan::lane::fabric)] = [joined, mine = memory.ranks[r], everybody = memory.ranks] {
      return std::make_unique<fabric_executor>(joined, mine, everybody);
    };
    x.lanes[static_cast<size_t>(plan::lane::shard)] = [mine = memory.ranks[r], groups = plan.optimizer,
                                                       tensor = plan.tensor,
                                                       host_threads = core::usable_cores() / plan.train.ranks()] {
      return std::make_unique<shard_executor>(mine, groups, tensor, host_threads);
    };
    file_port_setup io{queue_options(c), memory.swaps.watch,
                       [links = std::weak_ptr(x.links)] {
                         if (const auto l = links.lock()) post(l->lanes[static_cast<size_t>(plan::lane::io)], wake{0});
                       },
                       [box = host.warnings](const std::string& line) { box->put(line); }};
    x.lanes[static_cast<size_t>(plan::lane::io)] = [mine = memory.ranks[r], io] {
      return std::make_unique<io_executor>(mine, through_file(mine->swap_file(), io));
    };
    x.lanes[static_cast<size_t>(plan::lane::writer)] = [mine = memory.ranks[r]] {
      return std::make_unique<writer_executor>(mine, std::make_unique<state_store>(*mine));
    };
    order_on_device(x.lanes, *memory.ranks[r], memory.room);
  }
  if (processes.is_on()) {
    const std::chrono::nanoseconds stall(static_cast<int64_t>(plan.stall_after_s * 1e9));
    TROUPE_TRY(processes.shared->show_pulses(
        pulses, std::clamp<std::chrono::nanoseconds>(stall / 16, shortest_pulse, longest_pulse)));
  }
  modules.instances.reset();  // the instances hold the values that the run began with
  telemetry_source records{.existing = actors.telemetry};
  if (!actors.telemetry) records.setup = make_telemetry();
  TROUPE_ASSIGN(auto members,
                assemble(*actors.system, std::move(all), data.loader, std::move(records), lane_threads::own));
  actors.members = std::move(members);
  actors.telemetry = actors.members->telemetry;
  actors.stops.connect(actors.members->supervisor);
  return {};
}

namespace {

// Returns an error for settings that cannot be combined with a host's own modules.
core::result<void> check_sequence(const session_options& options) {
  const auto& parallel = options.config->parallel;
  const uint32_t degree = std::max(parallel.sequence, parallel.context);
  if (options.model == nullptr) return {};
  if (parallel.sharded_norms)
    return core::fail(core::error_kind::bad_input,
                      "parallel.sharded_norms: cannot be combined with a host program's own modules; set it to false");
  if (const uint64_t bytes = options.config->row_tile_bytes; bytes > 0)
    return core::fail(
        core::error_kind::bad_input,
        "cluster.row_tile_bytes: cannot be combined with a host program's own modules, which compute their "
        "loss themselves; set it to 0, got " +
            std::to_string(bytes));
  if (const uint64_t bytes = options.config->mlp_tile_bytes; bytes > 0)
    return core::fail(
        core::error_kind::bad_input,
        "cluster.mlp_tile_bytes: cannot be combined with a host program's own modules, which compute their "
        "MLPs themselves; set it to 0, got " +
            std::to_string(bytes));
  if (options.config->activation_checkpointing.selective)
    return core::fail(core::error_kind::bad_input,
                      "activation_checkpointing.selective: cannot be combined with a host program's own modules, whose "
                      "matrix products "
                      "Troupe does not compute; set it to false");
  if (degree == 1) return {};
  return core::fail(core::error_kind::bad_input,
                    std::string(parallel.context > 1 ? "parallel.context" : "parallel.sequence") +
                        ": cannot be combined with a host program's own modules yet; set it to 1, got " +
                        std::to_string(degree));
}

/// Returns e.g. "device: cuda:0, NVIDIA H100; cuda.tf32; cuda.deterministic".
std::string gpu_line(device::device_id device, const config::cuda_section& asked) {
  return "device: " + name_of(device) + ", " + device::properties_of(device).name + (asked.tf32 ? "; cuda.tf32" : "") +
         (asked.deterministic ? "; cuda.deterministic" : "");
}

job::host_tables tables_of(const models::prepared_modules* own) {
  if (own == nullptr) return {};
  return {&own->table(), &own->own_table(), &own->cut()};
}

}  // namespace

core::result<std::unique_ptr<session>> session::open(session_options options) {
  if (options.config == nullptr)
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration");
  std::string found_degrees;
  if (!options.config->open_degrees.empty()) {
    if (options.process != nullptr)
      return core::fail(core::error_kind::bad_input,
                        "parallel: wanted degrees for each process of a job, as session::choose_degrees finds them "
                        "before there are any, got auto");
    TROUPE_ASSIGN(auto degrees, choose_degrees(options));
    options.config = degrees.config;
    options.texts = degrees.texts;
    found_degrees = std::move(degrees.file);
  }
  TROUPE_TRY(check_sequence(options));
  TROUPE_TRY(models::take_linked_cuda());
  const device::device_id device = device_of(*options.config);
  TROUPE_TRY(device::check(device));
  if (options.system != nullptr) TROUPE_TRY(check_system(*options.system));
  const core::usual_float_environment numbers;
  const one_aten_thread alone;  // for the sums of a dry run, and for rates that are measured for lanes of one thread
  auto p = std::make_unique<parts>();
  if (device.kind == core::device_kind::cuda) {
    const auto& asked = options.config->cuda;
    TROUPE_ASSIGN(auto use,
                  models::cuda_use::begin(device, {.tf32 = asked.tf32, .deterministic = asked.deterministic}));
    p->on_gpu = std::move(use);
    p->recording.lines->put(gpu_line(device, asked));
  }
  opening_watch watch(options.hooks.on_opening);
  p->modules.model = std::move(options.model);
  if (p->modules.model != nullptr) {
    TROUPE_TRY(watch.begin("making the host's model"));
    TROUPE_ASSIGN(auto prepared, prepare(p->modules.model, *options.config, &p->modules.changes));
    p->modules.instances = std::move(prepared);
    p->modules.outputs = p->modules.instances->outputs();
    p->modules.layers = models::text_of(p->modules.instances->layers());
    p->recording.lines->put_lines(p->modules.layers);
  } else {
    p->modules.changes = job::idle_unit_passes(*options.config);
  }
  p->recording.lines->put_lines(p->modules.changes);
  TROUPE_TRY(watch.begin("writing and proving the plans"));
  std::optional<plan::cost_model> costs;
  const bool is_alone = options.process == nullptr;
  if (is_alone && options.config->zero_optimization.swaps() && job::needs_measured_costs(*options.config))
    costs = job::measured_costs(*options.config, measured_matmul_flops,
                                [box = p->host.warnings](const std::string& line) { box->put(line); });
  TROUPE_ASSIGN(auto plan, job::make_blueprint(std::move(options.config), tables_of(p->modules.instances.get()),
                                               costs ? &*costs : nullptr,
                                               {[&] { return watch.go_on(); },
                                                [is_alone](const job::blueprint& b) {
                                                  return is_alone ? check_memory(b) : core::result<void>();
                                                }}));
  p->plan = std::move(plan);
  if (is_alone) p->recording.lines->put_lines(p->plan.early.note);
  p->found_degrees = std::move(found_degrees);
  p->host.hooks = std::move(options.hooks);
  p->memory.ledger = std::make_unique<allocation_ledger>(p->plan.train.ranks());
  if (!p->plan.compression->pruned.empty()) p->memory.masks = std::make_shared<pruning_masks>(p->plan.compression);
  p->actors.system = options.system;
  p->processes.link = options.process;
  TROUPE_TRY(p->make_own_system());
  p->progress.scale = kernels::first_loss_scale(p->plan.loss_scale);
  TROUPE_TRY(watch.begin(reading_phase));
  TROUPE_TRY(p->read_data(watch, options.texts));
  if (options.process != nullptr) {
    TROUPE_TRY(p->join_processes(options, watch));
    return std::unique_ptr<session>(new session(std::move(p)));
  }
  const bool resumes = !options.resume.empty();
  // A checkpoint may lack scores of masks, which then have their first values.
  const bool replaced = resumes && replaces_everything(options.load) &&
                        std::ranges::none_of(p->plan.compression->pruned, [](const job::pruned_module& m) {
                          return m.method == config::pruning_method::topk;
                        });
  TROUPE_TRY(p->take_memory(replaced ? first_weights::from_checkpoint : first_weights::drawn, watch));
  p->recording.resumed_from = options.resume;
  TROUPE_TRY(p->look_at_teacher());
  if (resumes) TROUPE_TRY(p->resume(options.resume, std::move(options.load), resume_time::while_opening, watch));
  if (!resumes) {
    TROUPE_TRY(p->take_layers(watch));
    TROUPE_TRY(p->make_masks({}));
    TROUPE_TRY(p->leave_out_from_the_start());
  }
  p->schedule_passes();
  TROUPE_TRY(watch.begin("starting the ranks"));
  TROUPE_TRY(p->start_actors());
  return std::unique_ptr<session>(new session(std::move(p)));
}

core::result<std::unique_ptr<session>> session::open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks) {
  return open(session_options{std::move(config), std::move(hooks)});
}

}  // namespace troupe::actors
