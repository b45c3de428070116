#include "actors/session/session.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "actors/aten_threads.hpp"
#include "actors/calibrate.hpp"
#include "actors/hands/compute_executor.hpp"
#include "actors/hands/fabric_executor.hpp"
#include "actors/hands/file_port.hpp"
#include "actors/hands/io_executor.hpp"
#include "actors/hands/shard_executor.hpp"
#include "actors/hands/writer_executor.hpp"
#include "actors/host_thread.hpp"
#include "actors/memory/initial_weights.hpp"
#include "actors/memory/state_store.hpp"
#include "actors/session/checkpoint_load.hpp"
#include "actors/session/host_run.hpp"
#include "actors/session/memory_need.hpp"
#include "actors/session/parts.hpp"
#include "actors/session/thread_room.hpp"
#include "actors/spans.hpp"
#include "core/clock.hpp"
#include "core/cores.hpp"
#include "fabric/in_process.hpp"
#include "job/measured_costs.hpp"

namespace troupe::actors {
namespace {

/// How long a warning of a run may wait before the host hears of it.
constexpr std::chrono::seconds warnings_wait_max{1};
/// Whether a run of this plan may change states.
constexpr bool trains(plan::plan_choice c) {
  return c == plan::plan_choice::train || c == plan::plan_choice::train_saving;
}

/// Each rank on a thread of its own: drawing the weights and touching their pages for the first time is most of what
/// opening a session takes. A host's own values are tensors of its thread, so it reads them, one rank after the other.
core::result<void> fill_memory(const job::blueprint& plan, rank_memories ranks, const models::prepared_modules* own,
                               bool weights_follow, opening_watch& watch) {
  const fill_watch told{[&] { return watch.wants_end(); }, [&](double share) { watch.share(share); }};
  const auto fill = [&](rank_memory* m) -> core::result<void> {
    if (!weights_follow)
      if (auto ok = fill_initial_weights(plan, *m, own, told); !ok) return ok;
    return fill_initial_moments(*plan.optimizer, *m, told);
  };
  const auto where = own != nullptr ? std::launch::deferred : std::launch::async | std::launch::deferred;
  std::vector<std::future<core::result<void>>> under_way;
  for (const auto& m : ranks) under_way.push_back(std::async(where, fill, m.get()));
  core::result<void> out;
  for (auto& rank : under_way) {
    watch.wait(rank);
    if (auto did = rank.get(); !did && out) out = did;
  }
  if (watch.stopped()) return core::fail(watch.why());
  return out;
}

}  // namespace

void session::parts::use_programs(plan::plan_choice which, plan::rank_plans plans) {
  for (uint32_t r = 0; r < plans.size(); ++r) {
    if (programs.size() <= r) programs.push_back(std::make_shared<rank_programs>());
    (*programs[r])[static_cast<size_t>(which)] = std::make_shared<const program>(plans[r]);
  }
}

// Of kinds of steps other than training the plans are written when the first is wanted: most runs never save or sample,
// and what they need is known since the session was opened.
core::result<void> session::parts::want(plan::plan_choice which) {
  if (program_of(which, 0) != nullptr) return {};
  const auto written = plan.write(which);
  if (!written) return core::fail(written.error());
  const auto all = written->all();
  if (!all) return core::fail(all.error());
  use_programs(which, *all);
  return {};
}

core::result<void> session::parts::take_memory(bool weights_follow, opening_watch& watch) {
  if (auto ok = watch.begin("taking memory"); !ok) return ok;
  auto trains = plan.train.all();
  if (!trains) return core::fail(trains.error());
  use_programs(plan::plan_choice::train, *trains);
  auto opened = open_swap_files(*plan.config, *trains);
  if (!opened) return core::fail(opened.error());
  swaps = std::move(*opened);
  if (swaps.space != nullptr)
    for (const auto& line : swaps.space->remarks()) warnings->put(line);
  const auto& z = plan.config->zero_optimization;
  const bool pinned = z.offload_optimizer.pin_memory || z.offload_param.pin_memory;
  const memory_place place{.windows = pinned ? device::tier::pinned : device::tier::huge};
  bool told_of_locks = false;
  for (uint32_t r = 0; r < plan.config->parallel.data; ++r) {
    auto m = rank_memory::allocate((*trains)[r], plan.pools[r], place);
    if (!m) return core::fail(m.error());
    if (swaps.space != nullptr) (*m)->use_swap_file(swaps.ranks[r]);
    // Windows that a device or a disk writes to, as far as the limit goes; said once where it does not.
    if (const auto remark = (*m)->unpinned(); remark && !std::exchange(told_of_locks, true)) warnings->put(*remark);
    memory.push_back(std::move(*m));
  }
  if (auto ok = watch.begin(weights_follow ? "touching memory" : "making first weights"); !ok) return ok;
  return fill_memory(plan, memory, host.get(), weights_follow, watch);
}

// With the threads of the actors that follow, too: neither can be refused half-way.
core::result<void> session::parts::make_own_system() {
  const size_t lanes = threads_of(plan.config->parallel.data);
  if (auto ok = check_thread_room(lanes + (system == nullptr ? threads_of_system(own_workers) : 0)); !ok) return ok;
  if (system != nullptr) return {};
  const host_thread here;
  own = std::make_unique<own_system>();
  system = &own->system;
  return {};
}

core::result<void> session::parts::start_actors() {
  const auto& c = *plan.config;
  const uint32_t ranks = c.parallel.data;
  auto group = fabric::in_process_group::make(ranks, memory.front()->device());
  const auto pulses = std::make_shared<pulse_board>(ranks);
  std::vector<rank_parts> all(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    auto& x = all[r];
    const auto communicator = join_fabric(x, r, *group);
    x.setup.programs = programs[r];
    x.setup.rules = plan.rules;
    x.setup.patience.stall_after = std::chrono::nanoseconds(static_cast<int64_t>(plan.stall_after_s * 1e9));
    x.setup.patience.longest_predicted =
        std::chrono::nanoseconds(static_cast<int64_t>(plan.longest_instruction_s * 1e9));
    x.setup.pulses = pulses;
    x.setup.votes = {memory[r]->votes(), memory[r]->norms(), memory[r]};
    x.setup.tell = [box = warnings](const std::string& line) { box->put(line); };
    compute_setup stage_setup{plan.spec, c.train_micro_batch_size_per_gpu, plan.sequence, c.seed, ledger->owner(r)};
    if (host != nullptr) stage_setup.own = [from = host, r] { return from->take(r); };
    auto stage = make_compute_executor(stage_setup, memory[r]);
    if (!stage) return core::fail(stage.error());
    auto held = std::make_shared<std::unique_ptr<executor>>(std::move(*stage));
    x.lanes[static_cast<size_t>(plan::lane::compute)] = [held] { return std::move(*held); };
    x.lanes[static_cast<size_t>(plan::lane::fabric)] = [communicator, mine = memory[r], everybody = memory] {
      return std::make_unique<fabric_executor>(communicator, mine, everybody);
    };
    x.lanes[static_cast<size_t>(plan::lane::shard)] = [mine = memory[r], groups = plan.optimizer] {
      return std::make_unique<shard_executor>(mine, groups);
    };
    file_port_setup io{queue_options(c), swaps.watch,
                       [links = std::weak_ptr(x.links)] {
                         if (const auto l = links.lock()) post(l->lanes[static_cast<size_t>(plan::lane::io)], wake{0});
                       },
                       [box = warnings](const std::string& line) { box->put(line); }};
    x.lanes[static_cast<size_t>(plan::lane::io)] = [mine = memory[r], io] {
      return std::make_unique<io_executor>(mine, through_file(mine->swap_file(), io));
    };
    x.lanes[static_cast<size_t>(plan::lane::writer)] = [mine = memory[r]] {
      return std::make_unique<writer_executor>(mine, std::make_unique<state_store>(*mine));
    };
  }
  host.reset();  // with the values that the run began with
  auto company = assemble(*system, std::move(all), data, make_telemetry(), true);
  if (!company) return core::fail(company.error());
  actors = std::move(*company);
  return {};
}

core::result<std::unique_ptr<session>> session::open(session_options options) {
  if (options.config == nullptr)
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration");
  if (options.system != nullptr)
    if (auto ok = check_system(*options.system); !ok) return core::fail(ok.error());
  const one_aten_thread alone;  // a dry run's sums, and rates that are measured for lanes of one thread
  auto p = std::make_unique<parts>();
  opening_watch watch(options.hooks.on_opening);
  p->model = std::move(options.model);
  if (p->model != nullptr) {
    if (auto ok = watch.begin("making the host's model"); !ok) return core::fail(ok.error());
    auto prepared = prepare(p->model, *options.config);
    if (!prepared) return core::fail(prepared.error());
    p->host = std::move(*prepared);
  }
  if (auto ok = watch.begin("writing and proving the plans"); !ok) return core::fail(ok.error());
  std::optional<plan::cost_model> costs;
  if (options.config->zero_optimization.swaps() && job::needs_measured_costs(*options.config))
    costs = job::measured_costs(*options.config, measured_matmul_flops,
                                [box = p->warnings](const std::string& line) { box->put(line); });
  auto plan = job::make_blueprint(
      std::move(options.config), p->host != nullptr ? &p->host->table() : nullptr, costs ? &*costs : nullptr,
      {[&] { return watch.go_on(); }, [](const job::blueprint& b) { return check_memory(b); }});
  if (!plan) return core::fail(plan.error());
  p->plan = std::move(*plan);
  p->hooks = std::move(options.hooks);
  p->ledger.emplace(p->plan.config->parallel.data);
  p->system = options.system;
  if (auto ok = p->make_own_system(); !ok) return core::fail(ok.error());
  p->scale = kernels::first_loss_scale(p->plan.loss_scale);
  if (auto ok = watch.begin("reading the data"); !ok) return core::fail(ok.error());
  if (auto ok = p->read_data(watch); !ok) return core::fail(ok.error());
  const bool resumes = !options.resume.empty();
  if (auto ok = p->take_memory(resumes && replaces_everything(options.load), watch); !ok) return core::fail(ok.error());
  p->resumed_from = options.resume;
  if (resumes)
    if (auto ok = p->resume(options.resume, std::move(options.load), false, watch); !ok) return core::fail(ok.error());
  if (auto ok = watch.begin("starting the ranks"); !ok) return core::fail(ok.error());
  if (auto ok = p->start_actors(); !ok) return core::fail(ok.error());
  return std::unique_ptr<session>(new session(std::move(p)));
}

core::result<std::unique_ptr<session>> session::open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks) {
  return open(session_options{std::move(config), std::move(hooks)});
}

session::session(std::unique_ptr<parts> p) : parts_(std::move(p)) {}

session::~session() {
  parts_->hooks = {};  // the host's thread may be in the middle of anything
  (void)parts_->end_saves();
  parts_->finish({});
  parts_->end_actors();
}

core::result<run_outcome> session::parts::run(plan::plan_choice which, uint64_t step,
                                              std::shared_ptr<const data::batch> given) {
  if (auto ok = sound(); !ok) return core::fail(ok.error());
  if (auto ok = want(which); !ok) return core::fail(ok.error());
  auto order = std::make_shared<step_order>();
  order->run = ++runs;
  order->step = step;
  order->applied = applied;
  order->settings = job::settings_of(*plan.optimizer, scheduled);
  order->loss_scale = scale.cur_scale;
  order->loads = loads;
  order->sequence_base = collectives;
  order->given = std::move(given);
  if (saves(which)) {
    order->save = save_waiting;
    save_writing = std::exchange(save_waiting, nullptr);
  }
  collectives += program_of(which, 0)->plan->num_collectives;
  core::result<run_outcome> out = core::fail(core::error_kind::bug, "the supervisor did not answer");
  const host_caller self(*system);
  // No time limit here: silence is the ranks' business, and they report it. Meanwhile the host hears of what waits.
  self->monitor(actors->supervisor);
  self->send(actors->supervisor, run_plan{which, order});
  bool answered = false;
  self->receive_while([&] { return !answered; })(
      [&](run_outcome& o) {
        answered = true;
        if (o.failure)
          out = core::fail(*o.failure);
        else
          out = std::move(o);
      },
      [&](const caf::down_msg& d) {
        answered = true;
        out = core::fail(core::error_kind::peer_lost, "supervisor ended: " + system->render(d.reason));
      },
      caf::after(warnings_wait_max) >>
          [&] {
            if (thrown) return;
            try {
              deliver_warnings();
            } catch (...) {
              thrown = std::current_exception();
            }
          });
  if (!out) {
    over = out.error();
    // No rank updates before the last micro-batch of all ranks has gone through, but for updates that were put by.
    over_with_states = !trains(which) || (lost_step->load() <= step && !plan.config->zero_optimization.zenflow.enabled);
  }
  return out;
}

core::result<run_outcome> session::parts::run_and_tell(plan::plan_choice which, uint64_t step,
                                                       std::shared_ptr<const data::batch> given) {
  auto out = run(which, step, std::move(given));
  deliver_warnings();
  return out;
}

core::result<step_report> session::step() {
  auto& p = *parts_;
  if (auto ok = p.sound(); !ok) return core::fail(ok.error());
  if (auto ok = p.open_records(); !ok) return core::fail(ok.error());
  step_report report;
  report.lr = job::settings_of(*p.plan.optimizer, p.scheduled).front().lr;
  report.loss_scale = p.scale.cur_scale;
  const int64_t before = core::now_ns();
  auto did =
      p.run(p.save_waiting != nullptr ? plan::plan_choice::train_saving : plan::plan_choice::train, p.steps, nullptr);
  if (!did) {
    p.deliver_warnings();
    return core::fail(did.error());
  }
  // All is booked before the host hears of it: what a hook throws must not make the next call apply the batch again.
  report.seconds = double(core::now_ns() - before) / 1e9;
  report.step = ++p.steps;
  report.loss = did->result.loss;
  report.grad_norm = did->result.grad_norm;
  report.skipped = did->result.skipped;
  report.save_asked = did->save_asked;
  report.tokens = p.data.shape.global_rows() * p.plan.sequence;
  auto spans = std::make_shared<const std::vector<telemetry::rank_spans>>(spans_of(*did->contexts));
  report.lanes = telemetry::summarise(*spans, core::usable_cores());
  report.lanes.control.between_s = report.seconds - report.lanes.whole_s;
  p.record(report, std::move(spans));
  if (!report.skipped) {
    ++p.applied;
    ++p.scheduled;
  }
  p.last_factor =
      1.0 / (double(p.data.shape.ranks) * p.data.shape.micros * p.scale.cur_scale * p.plan.rules.input_scale);
  auto scale = kernels::next_loss_scale(p.plan.loss_scale, p.scale, report.skipped);
  if (scale)
    p.scale = *scale;
  else
    p.over = scale.error();
  p.deliver_warnings();
  if (!scale) return core::fail(scale.error());
  (void)p.collect_save(false);
  if (p.hooks.on_step) p.hooks.on_step(report);
  return report;
}

core::result<double> session::evaluate(uint64_t batches) {
  auto& p = *parts_;
  const auto n = p.num_evaluations(batches);
  if (!n) return core::fail(n.error());
  double sum = 0;
  for (uint64_t i = 0; i < *n; ++i) {
    auto did = p.run_and_tell(plan::plan_choice::evaluate, i, nullptr);
    if (!did) return core::fail(did.error());
    sum += did->result.loss;
  }
  p.record_loss(sum / double(*n));
  if (p.hooks.on_evaluation) p.hooks.on_evaluation(p.steps, sum / double(*n));
  return sum / double(*n);
}

void session::stop(const std::string& why) {
  post(parts_->actors->supervisor, give_up{core::error_kind::stopped, why});
}

uint64_t session::steps_done() const { return parts_->steps; }
uint64_t session::validation_tokens() const {
  return parts_->model != nullptr ? 0 : parts_->data.corpus->validation_tokens();
}
uint64_t session::sequence() const { return parts_->plan.sequence; }
const core::model_table& session::table() const { return *parts_->plan.table; }
const plan::rank_plan& session::training_plan(uint32_t rank) const {
  return *parts_->program_of(plan::plan_choice::train, rank)->plan;
}

std::string session::chosen_tiers() const {
  const auto& b = parts_->plan;
  const auto& options = b.train.layout().options;
  return options.tiers.swaps() ? job::chosen_tiers(*b.config, options, b.costs) : std::string();
}

std::vector<rank_memory_report> session::memory() const {
  std::vector<rank_memory_report> out;
  for (uint32_t r = 0; r < parts_->memory.size(); ++r) {
    rank_memory_report one{parts_->memory[r]->resident(), parts_->ledger->peak_bytes(parts_->ledger->owner(r))};
    if (parts_->offloaded != nullptr) one.offloaded_bytes = parts_->offloaded->adjust(one.resident);
    out.push_back(one);
  }
  return out;
}

}  // namespace troupe::actors
