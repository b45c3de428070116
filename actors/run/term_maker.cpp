#include "actors/run/term_maker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "actors/hands/compute_executor.hpp"
#include "actors/hands/device_lane.hpp"
#include "actors/hands/fabric_executor.hpp"
#include "actors/hands/io_executor.hpp"
#include "actors/hands/shard_executor.hpp"
#include "actors/hands/writer_executor.hpp"
#include "actors/host_thread.hpp"
#include "actors/loading/checkpoint_load.hpp"
#include "actors/loading/states_source.hpp"
#include "actors/memory/file_port.hpp"
#include "actors/memory/initial_weights.hpp"
#include "actors/memory/state_store.hpp"
#include "actors/opening/memory_need.hpp"
#include "actors/opening/thread_room.hpp"
#include "actors/run/training_run.hpp"
#include "core/system/cores.hpp"
#include "models/host/prepared_modules.hpp"
#include "plan/stages.hpp"

namespace troupe::actors {
namespace {

/// Fills the memory of each rank with initial values on a thread of its own, because drawing the weights and touching
/// the memory's pages for the first time takes most of the opening. Weights of a host program's own model are
/// tensors of the calling thread, which then fills all ranks itself, one after the other.
core::result<void> fill_memory(const job::blueprint& plan, rank_memories ranks, models::prepared_modules* own,
                               first_weights weights, opening_watch& watch) {
  const fill_watch told{[&] { return watch.wants_end(); }, [&](double share) { watch.share(share); }};
  std::vector<pid_t> threads(ranks.size(), ::gettid());
  const auto fill = [&](rank_memory* m, pid_t& thread) -> core::result<void> {
    thread = ::gettid();
    const bool drawn = weights == first_weights::drawn;
    if (drawn || plan.teaching)
      TROUPE_TRY(fill_initial_weights(plan, *m, own, told, drawn ? filled_values::all : filled_values::of_teacher));
    TROUPE_TRY(fill_initial_moments(*plan.optimizer, *m, told));
    for (uint32_t q = 0; drawn && q < plan.table->parameters.size(); ++q)
      TROUPE_TRY(begin_average(*plan.optimizer, *m, q));
    return {};
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

/// Decorates the executors of a rank's lanes with device_lane if the device has memory of its own, because work of an
/// instruction may then still run on the device when the instruction ends.
/// `ledger_owner`: number under which the ledger counts the device memory of the rank's lanes.
void order_on_device(std::vector<std::function<std::unique_ptr<executor>()>>& lanes, const rank_memory& memory,
                     const std::shared_ptr<const device_room>& room, uint32_t ledger_owner) {
  const auto& tiers = memory.plan().options().tiers;
  if (!tiers.apart) return;
  for (uint32_t seat = 1; seat < lanes.size(); ++seat) {
    const auto lane = seat < plan::num_lanes ? static_cast<plan::lane>(seat) : plan::lane::compute;
    lanes[seat] = [make = std::move(lanes[seat]), device = memory.device(), use = use_of(lane, tiers), room,
                   ledger_owner] { return std::make_unique<device_lane>(make(), device, use, room, ledger_owner); };
  }
}

std::vector<bool> computed_units(const std::shared_ptr<const plan::job_layout>& layout, uint32_t rank) {
  std::vector<bool> out;
  for (uint32_t u = 0; u < layout->table->units.size(); ++u) out.push_back(plan::computes(*layout, rank, u));
  return out;
}

/// Returns the patterns of all parameter groups as text, in order.
std::string patterns_of(const config::job_config& c) {
  std::string out;
  for (const auto& group : c.parameter_groups) out += fmt::format("{}'{}'", out.empty() ? "" : ", ", group.match);
  return "[" + out + "]";
}

/// Returns an error, with the key, for a setting that must stay the same when the degrees of a run change.
core::result<void> same_job(const config::job_config& was, const config::job_config& next) {
  const auto refused = [](const char* key, auto wanted, auto got) {
    return core::fail(error_kind::bad_input,
                      fmt::format("{}: wanted {}, as before in this run, because only its degrees may change, got {}",
                                  key, wanted, got));
  };
  if (was.train_batch_size != next.train_batch_size)
    return refused("train_batch_size", was.train_batch_size, next.train_batch_size);
  if (was.seed != next.seed) return refused("seed", was.seed, next.seed);
  const auto &ramp = was.data.rampup_batch_size, &next_ramp = next.data.rampup_batch_size;
  if (ramp != next_ramp)
    return refused("data.rampup_batch_size", fmt::format("[{}]", fmt::join(ramp, ", ")),
                   fmt::format("[{}]", fmt::join(next_ramp, ", ")));
  const auto groups = patterns_of(was), next_groups = patterns_of(next);
  if (groups != next_groups) return refused("parameter_groups", groups, next_groups);
  if (was.parameter_dtype() != next.parameter_dtype())
    return refused("the type of parameters", core::name_of(was.parameter_dtype()),
                   core::name_of(next.parameter_dtype()));
  if (was.optimizer.rule != next.optimizer.rule)
    return refused("optimizer.rule", "the program's own rule", "another one");
  if (was.device != next.device) return refused("device", core::name_of(was.device), core::name_of(next.device));
  if (was.cuda.devices != next.cuda.devices)
    return refused("cuda.devices", fmt::format("{}", fmt::join(was.cuda.devices, ", ")),
                   fmt::format("{}", fmt::join(next.cuda.devices, ", ")));
  if (was.cuda.tf32 != next.cuda.tf32) return refused("cuda.tf32", was.cuda.tf32, next.cuda.tf32);
  if (was.cuda.deterministic != next.cuda.deterministic)
    return refused("cuda.deterministic", was.cuda.deterministic, next.cuda.deterministic);
  return {};
}

/// Returns an error for settings that cannot be combined with a change of degrees yet.
core::result<void> check_beside(const config::job_config& c, bool own_modules, bool has_passes) {
  const auto refused = [](const char* key, const char* got) {
    return core::fail(error_kind::bad_input,
                      fmt::format("{}: cannot be combined with a change of degrees yet; the run has {}", key, got));
  };
  if (own_modules) return refused("model", "a host's own modules");
  if (has_passes) return refused("compile", "passes");
  if (!c.open_degrees.empty()) return refused("parallel", "degrees set to auto");
  return {};
}

}  // namespace

first_weights weights_before(const training_run& run, const load_options& options) {
  const auto& plan = run.term->plan;
  const bool has_scores = std::ranges::any_of(plan.compression->pruned,
                                              [](const auto& m) { return m.method == config::pruning_method::topk; });
  const bool lacks_some = has_scores || plan.spec.adapters || plan.config->checkpoint.exclude_frozen_parameters;
  return replaces_everything(options) && !lacks_some ? first_weights::from_checkpoint : first_weights::drawn;
}

// Makes the actor system of the session. First checks that the system allows all threads that this and the later actors
// need, so that neither is refused half-way.
core::result<void> term_maker::make_own_system() {
  const uint32_t ranks = run_.term->plan.train.ranks();
  const size_t lanes = threads_of(run_.others->share_of(ranks, *run_.term->plan.config));
  TROUPE_TRY(check_thread_room(lanes + (run_.home.system == nullptr ? threads_of_system(own_workers) : 0)));
  if (run_.home.system != nullptr) return {};
  const host_thread here;
  run_.home.own = std::make_unique<own_system>();
  run_.home.system = &run_.home.own->system;
  return {};
}

core::result<void> term_maker::take_memory(first_weights weights, opening_watch& watch) {
  auto& term = *run_.term;
  auto& memory = term.memory;
  const auto& plan = term.plan;
  TROUPE_TRY(watch.begin("taking memory"));
  memory.room = std::make_shared<const device_room>(room_of(plan));
  if (run_.on_gpu != nullptr) {
    TROUPE_TRY(run_.on_gpu->share_memory(memory.room->left_bytes()));
    TROUPE_TRY(models::watch_cuda_memory({.took = enter_block, .gave = remove_block}));
  }
  TROUPE_ASSIGN(auto trains, plan.train.all());
  term.use_programs(plan::plan_choice::train, trains);
  std::vector<std::shared_ptr<const plan::rank_plan>> mine;
  std::vector<uint64_t> segment_bytes;
  for (uint32_t r = 0; r < plan.train.ranks(); ++r) {
    if (run_.others->is_here(r)) mine.push_back(trains[r]);
    segment_bytes.push_back(shared_layout_of(*trains[r], plan.pools[r]).bytes);
  }
  TROUPE_TRY(run_.others->share(segment_bytes));
  TROUPE_ASSIGN(auto opened, open_swap_files(*plan.config, run_.others->own_folder(plan.config->swap_folder()), mine));
  memory.swaps = std::move(opened);
  if (memory.swaps.space != nullptr)
    for (const auto& line : memory.swaps.space->remarks()) run_.host.warnings->put(line);
  const auto& z = plan.config->zero_optimization;
  const bool pinned =
      z.offload_optimizer.pin_memory || z.offload_param.pin_memory || plan.config->device != core::device_kind::cpu;
  memory_place place{.device = device_of(*plan.config), .windows = pinned ? device::tier::pinned : device::tier::huge};
  bool told_of_locks = false;
  for (uint32_t r = 0; r < plan.train.ranks(); ++r) {
    if (run_.modules.instances != nullptr && run_.others->is_here(r))
      run_.modules.instances->keep(r, computed_units(trains[r]->layout, r));
    place.is_here = run_.others->is_here(r);
    if (auto shared = run_.others->segment_of(r)) place.shared = std::move(*shared);
    TROUPE_ASSIGN(auto m, rank_memory::allocate(trains[r], plan.pools[r], place));
    memory.ranks.push_back(std::move(m));
    if (!place.is_here) continue;
    const auto& own = memory.here.emplace_back(memory.ranks.back());
    if (memory.swaps.space != nullptr) own->use_swap_file(memory.swaps.ranks[memory.here.size() - 1]);
    // Memory that a device or a disk writes to is pinned as far as the limit of locked memory permits; otherwise the
    // user gets one warning.
    if (const auto remark = own->unpinned(); remark && !std::exchange(told_of_locks, true))
      run_.host.warnings->put(*remark);
  }
  const bool reads_model = !plan.config->model.path.empty();
  TROUPE_TRY(watch.begin(weights == first_weights::from_checkpoint ? "touching memory"
                         : reads_model                             ? "loading weights"
                                                                   : "making first weights"));
  return fill_memory(plan, memory.here, run_.modules.instances.get(), weights, watch);
}

core::result<void> term_maker::start_actors() {
  auto& term = *run_.term;
  const auto& memory = term.memory;
  const auto& plan = term.plan;
  const auto& c = *plan.config;
  const auto& layout = *memory.ranks.front()->plan().layout;
  const auto join = run_.others->fabric();
  const auto pulses = std::make_shared<pulse_board>(plan.train.ranks());
  run_.home.pulses.show(pulses);
  const auto put_warning = run_.host.put_warning();
  std::vector<rank_parts> all;
  for (uint32_t r = 0; r < plan.train.ranks(); ++r) {
    if (!run_.others->is_here(r)) continue;
    auto& x = all.emplace_back();
    const auto joined = join_fabric(x, r, layout.communicators, join);
    x.setup.programs = term.programs(r);
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
    x.setup.tell = put_warning;
    compute_setup stage_setup{.spec = plan.spec,
                              .teaching = plan.teaching,
                              .split = plan.tensor.split,
                              .sequence = plan.tensor.sequence,
                              .rows = c.train_micro_batch_size_per_gpu,
                              .columns = plan.sequence,
                              .seed = c.seed,
                              .ledger_owner = memory.ledger->owner(r),
                              .compression = plan.compression,
                              .masks = term.pruner.masks()};
    if (run_.modules.instances != nullptr)
      stage_setup.own = [from = run_.modules.instances, r] { return from->take(r); };
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
                       put_warning};
    x.lanes[static_cast<size_t>(plan::lane::io)] = [mine = memory.ranks[r], io] {
      return std::make_unique<io_executor>(mine, through_file(mine->swap_file(), io));
    };
    x.lanes[static_cast<size_t>(plan::lane::writer)] = [mine = memory.ranks[r]] {
      return std::make_unique<writer_executor>(mine, std::make_unique<state_store>(*mine));
    };
    order_on_device(x.lanes, *memory.ranks[r], memory.room, memory.ledger->owner(r));
  }
  TROUPE_TRY(
      run_.others->show_pulses(pulses, std::chrono::nanoseconds(static_cast<int64_t>(plan.stall_after_s * 1e9))));
  run_.modules.instances.reset();  // frees initial values, which the ranks have copied
  telemetry_source records{.existing = run_.home.telemetry};
  if (!run_.home.telemetry) records.setup = run_.recorder.make_telemetry();
  TROUPE_ASSIGN(auto members,
                assemble(*run_.home.system, std::move(all), term.loader, std::move(records), lane_threads::own));
  term.members = std::move(members);
  run_.home.telemetry = term.members->telemetry;
  run_.home.stops.connect(term.members->supervisor);
  return {};
}

void term_maker::set_batch_shape() {
  auto& loader = run_.term->loader;
  const auto& plan = run_.term->plan;
  const auto& c = *plan.config;
  loader.corpus = run_.data.corpus();
  loader.cut = run_.data.cut();
  loader.shape = {c.train_micro_batch_size_per_gpu, c.parallel.data,
                  static_cast<uint32_t>(c.gradient_accumulation_steps)};
  if (const auto& ramp = c.data.rampup_batch_size; !ramp.empty()) loader.shape.ramp = {ramp[0], ramp[1], ramp[2]};
  loader.first_lost_step = run_.over.lost_step;
  loader.readers.assign(c.parallel.data, 0);
  for (uint32_t r = 0; r < plan.train.ranks(); ++r)
    if (run_.others->is_here(r)) ++loader.readers[plan.train.layout().options.mesh.samples_at(r)];
  loader.prefetch_batches = std::max<uint64_t>(c.data.prefetch_batches, c.parallel.data);
}

core::result<void> term_maker::begin(const term_states& states, opening_watch& watch) {
  set_batch_shape();
  TROUPE_TRY(take_memory(states.weights, watch));
  TROUPE_TRY(states.take(watch));
  TROUPE_TRY(watch.begin("starting the ranks"));
  return start_actors();
}

core::result<void> term_maker::change_degrees(std::shared_ptr<const config::job_config> next) {
  TROUPE_ASSIGN(auto planned, job::make_blueprint(std::move(next), {}, &run_.term->plan.costs,
                                                  {{}, [](const job::blueprint& b) { return check_memory(b); }}));
  TROUPE_TRY(check_thread_room(threads_of(planned.train.ranks())));
  const auto masks = run_.term->pruner.saved_masks();
  const auto progress = run_.progress;
  auto before = std::exchange(run_.term, std::make_unique<run_term>(run_, std::move(planned)));
  before->memory.swaps.space.reset();  // frees the folder for the new degrees; its files stay while they are used
  const term_states states{
      first_weights::from_checkpoint, [&](opening_watch& watch) -> core::result<void> {
        for (const auto& m : before->memory.ranks) TROUPE_TRY(m->settle_writes());
        auto from = source_of_states(before->whole(), *before->plan.tensor.whole, *before->plan.optimizer);
        auto& run = from.run;
        run.steps = progress.steps;
        run.samples = before->loader.shape.samples_before(progress.steps);
        run.samples_per_step = before->loader.shape.global_rows();
        run.seed = before->plan.config->seed;
        run.loss_scale = progress.scale_record();
        run.masks = masks;
        run.data = run_.data.record();
        TROUPE_TRY(run_.resumer.take_over(from, {.left_out = progress.left_out}, resume_time::while_opening, watch));
        run_.progress = progress;               // also restores what checkpoints do not store
        run_.progress.gradient_factor.reset();  // the last gradients are in the old memory
        return {};
      }};
  opening_watch unwatched({});
  if (auto made = begin(states, unwatched); !made) {
    run_.term = std::move(before);
    run_.progress = progress;
    run_.home.stops.connect(run_.term->members->supervisor);
    if (run_.on_gpu != nullptr)
      if (auto ok = run_.on_gpu->share_memory(run_.term->memory.room->left_bytes()); !ok)
        run_.host.warnings->put(
            "LibTorch keeps the share of the GPU's memory that it had for the degrees that were refused: " +
            ok.error().text);
    return made;
  }
  before->members->telemetry = telemetry_actor();
  dismiss_and_wait(*run_.home.system, *before->members);
  return {};
}

core::result<void> check_change(const training_run& run, const config::job_config& next) {
  TROUPE_TRY(same_job(*run.term->plan.config, next));
  TROUPE_TRY(check_host_schedule(run.host.hooks, next));
  return check_beside(next, run.modules.model != nullptr, run.passes.has_schedule());
}

void end_actors(training_run& run, bool keeps_records) {
  auto& members = run.term->members;
  if (members == nullptr) return;
  run.home.stops.connect({});
  // Waits for the end of the actors here, because a host program's actor system lives on and would not wait for
  // them.
  if (keeps_records)
    members->telemetry = telemetry_actor();
  else
    run.home.telemetry = telemetry_actor();
  dismiss_and_wait(*run.home.system, *members);
  members.reset();
}

}  // namespace troupe::actors
