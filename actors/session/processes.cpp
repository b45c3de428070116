// Runs the terms of a session whose ranks are in several processes: begins a term with the ranks of this process, and
// ends it. Every process has the whole session and plans all ranks; it has memory and actors for its own ranks only.
// Owns the order of these phases; served.cpp owns the messages during a term, kept.cpp the saves in memory.
#include <fmt/format.h>

#include <utility>

#include "actors/calibrate.hpp"
#include "actors/processes/keep_for_others.hpp"
#include "actors/session/host_run.hpp"
#include "actors/session/memory_need.hpp"
#include "actors/session/parts.hpp"
#include "actors/session/travelling_load.hpp"
#include "checkpoint/files/digest.hpp"
#include "core/clock.hpp"
#include "job/changed_steps.hpp"
#include "job/feasible_degree.hpp"
#include "job/measured_costs.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;

/// Returns `what: digest`, one per line, equal on processes that plan the same step and train on the same tokens.
std::string digests_of(const job::blueprint& plan, const std::vector<std::shared_ptr<rank_memory>>& ranks,
                       const loader_setup& loader, const std::string& host_values) {
  std::string all = fmt::format("{} {} {}", plan.config->seed, plan.config->train_batch_size, plan.table->numel());
  all += host_values;
  for (const auto& m : ranks) {
    const auto& p = m->plan();
    all += fmt::format("; {} {} {}", p.instructions.size(), p.buffers.size(), p.memory.total());
  }
  const auto& s = loader.shape;
  all += fmt::format("; {} {} {} {} {}", s.rows, s.ranks, s.micros, s.first_step, s.first_sample);
  for (const auto& range : s.skipped.ranges()) all += fmt::format(" {}-{}", range.begin, range.end);
  const auto line = [](const std::string& what, const std::string& of) {
    const auto digest = checkpoint::digest_of(of);
    return fmt::format("{}: {:016x}{:016x}", what, digest.high, digest.low);
  };
  std::string out = line("plan of a step", all);
  if (loader.corpus == nullptr) return out;
  const auto batch = data::make_batch(*loader.corpus, s, s.first_step, 0, 0);
  std::string tokens = fmt::format("{}", loader.corpus->validation_tokens());
  for (const int64_t t : batch.tokens) tokens += fmt::format(" {}", t);
  std::string texts;
  for (const auto& source : plan.config->data.sources)
    texts += (texts.empty() ? "'" : ", '") + source.text.string() + "'";
  return out + "\n" + line("tokens of " + (texts.empty() ? std::string("the data") : texts), tokens);
}

/// Returns the options of a training step with these passes.
plan::plan_options options_with(const chosen_passes& x, const job::blueprint& plan) {
  plan::plan_options out = plan.options[static_cast<size_t>(plan::plan_choice::train)];
  out.recompute = x.recompute;
  out.kept_units = x.kept_units;
  out.light_before = x.light_before;
  out.overlap_exchanges = x.overlap_exchanges;
  out.exchange_pieces = x.exchange_pieces;
  out.gathering = x.gathering;
  out.gradients.reduce_bucket = x.reduce_bucket;
  out.gradients.buckets_follow_units = x.buckets_follow_units;
  out.tiers.activation_units = x.activation_units;
  return out;
}

/// Records a change of degrees. A run may have gone back to a step before its last change; later changes are then
/// removed.
void note_degree(std::vector<job::degree_change>& all, const job::degree_change& now) {
  std::erase_if(all, [&](const auto& x) { return x.step >= now.step; });
  if (all.empty() || all.back().data != now.data) all.push_back(now);
}

}  // namespace

core::result<void> session::parts::join_processes(const session_options& options, opening_watch& watch) {
  auto& x = processes;
  x.job = options.file != nullptr ? options.file : plan.config;
  x.choose_resume = options.choose_resume ? options.choose_resume
                                          : [from = resume_choice{options.resume, options.load}](bool /*again*/) {
                                              return core::result<resume_choice>(from);
                                            };
  TROUPE_TRY(enter_term(watch));
  note_degree(x.counts.degrees, {progress.steps, plan.config->parallel.data});
  return {};
}

core::result<void> session::parts::change_processes(const config::job_config& next) {
  const uint32_t data = next.parallel.data;
  if (data > processes.job->parallel.data)
    return core::fail(
        error_kind::bad_input,
        fmt::format("--degrees: wanted at most {} data ranks, for which the job's processes were started, "
                    "got {}",
                    processes.job->parallel.data, data));
  return end_term_for(data);
}

core::result<void> session::parts::end_term_for(uint32_t data, const std::string& cause) {
  return outlasting([&]() -> core::result<void> {
    const int64_t begin_ns = core::now_ns();
    if (auto ok = end_saves(); !ok && over.why) return ok;
    TROUPE_TRY(keep_states_now());
    processes.link->change(data);
    const auto end = processes.link->wait_for_end();
    return recover_to(progress.steps, {end.kind, cause.empty() ? end.text : cause}, begin_ns);
  });
}

core::result<void> session::parts::enter_term(opening_watch& watch) {
  for (;;) {
    TROUPE_ASSIGN(const auto order, processes.link->next_term());
    const bool keeps = term_members(processes.link->place(), order.order.seats).keeps();
    auto made = keeps ? keep_for_others(*processes.link, order) : make_processes_term(order, watch);
    if (made) return {};
    TROUPE_TRY(leave_term(made.error()));
  }
}

core::result<void> session::parts::make_processes_term(const cluster::term_order& order, opening_watch& watch) {
  auto& x = processes;
  auto& link = *x.link;
  const int64_t begin_ns = core::now_ns();
  TROUPE_TRY(watch.begin("beginning a term"));
  x.members = term_members{link.place(), order.order.seats};
  x.secret = order.order.secret;
  x.counts.terms = order.order.number - 1;
  if (x.counts.cause.empty()) x.counts.cause = order.order.cause;  // set in a process that joins a run
  x.counts.network = {};
  x.links = {};
  x.saves = std::make_unique<memory_saves>(link);
  if (has_disks_of_machines()) x.saves->use_disk(open_for_others);
  x.parts = std::make_shared<part_taker>();
  auto config = x.job;
  if (order.order.data != config->parallel.data)
    config = std::make_shared<const config::job_config>(job::at_degree(*config, order.order.data));

  std::optional<output_sign> sign;  // exists until all processes have begun
  TROUPE_TRY(look_at_output(sign));
  TROUPE_TRY(take_texts(watch));
  opening_call opening;
  if (x.leads()) {
    if (config->zero_optimization.swaps() && job::needs_measured_costs(*config))
      opening.costs = job::measured_costs(*config, measured_matmul_flops,
                                          [box = host.warnings](const std::string& line) { box->put(line); });
    resume_choice from;
    if (order.order.folder.empty()) {
      TROUPE_ASSIGN(auto chosen, x.choose_resume(x.counts.terms > 0));
      from = std::move(chosen);
      recording.resumed_from = from.path;
    }
    if (has_disks_of_machines() && !from.path.empty())
      if (const auto folder = native_folder(from.path, from.load.tag); !folder.empty()) {
        from.path = folder;  // `latest` of another machine may name an older one
        from.load.tag.reset();
      }
    from.load.left_out = x.left_out;
    opening.load = travelling(from.path, from.load, *plan.tensor.whole);
    if (x.passes_data != config->parallel.data) x.passes.reset();
    opening.passes = x.passes;
    opening.schedule = x.schedule;
    link.tell(encode(opening));
    link.on_note([parts = x.parts](const cluster::answer& a) { parts->hear(a.what); });
  } else {
    TROUPE_ASSIGN(const auto call, link.next_call());
    TROUPE_ASSIGN(auto decoded, decode_call(call.what));
    auto* const first = std::get_if<opening_call>(&decoded);
    if (first == nullptr)
      return core::fail(error_kind::bug, "processes: wanted the opening of a term, got another call");
    opening = std::move(*first);
    x.passes = opening.passes;
    x.passes_data = config->parallel.data;
    x.schedule = opening.schedule;
  }
  // A host's own modules of the previous term were moved to its ranks, so new ones are made.
  if (modules.model != nullptr && modules.instances == nullptr) {
    TROUPE_ASSIGN(auto prepared, prepare(modules.model, *config));
    modules.instances = std::move(prepared);
  }
  job::host_tables own;
  std::string host_values;
  if (const auto* const m = modules.instances.get(); m != nullptr) {
    own = {&m->table(), &m->own_table(), &m->cut()};
    for (const size_t digest : m->digests()) host_values += fmt::format(" {:x}", digest);
  }
  // The leading process checks that there is enough memory; the others allocate theirs after that.
  const bool looks = x.leads();
  TROUPE_ASSIGN(auto planned, job::make_blueprint(config, own, opening.costs ? &*opening.costs : nullptr,
                                                  {[&] { return watch.go_on(); },
                                                   [looks](const job::blueprint& b) {
                                                     return looks ? check_memory(b) : core::result<void>();
                                                   }}));
  plan = std::move(planned);
  undone = {};
  change_of_updates = false;
  if (looks && x.counts.terms == 0) recording.lines->put_lines(plan.early.note);
  if (opening.passes) TROUPE_TRY(job::use_chosen_passes(plan, options_with(*opening.passes, plan)));
  const uint32_t ranks = plan.train.ranks();
  memory.ledger = std::make_unique<allocation_ledger>(ranks);
  if (!plan.compression->pruned.empty()) memory.masks = std::make_shared<pruning_masks>(plan.compression);
  x.peak_bytes.assign(ranks, 0);
  set_batch_shape();
  const auto weights =
      order.order.folder.empty() && opening.load.path.empty() ? first_weights::drawn : first_weights::from_checkpoint;
  TROUPE_TRY(take_memory(weights, watch));
  if (auto* const wire = x.shared->wire())
    x.saves->use(wire->files(), x.members->copies_to(),
                 [box = host.warnings](const std::string& line) { box->put(line); });
  TROUPE_TRY(look_at_teacher());
  if (x.leads())
    for (uint32_t r = 0; r < ranks; ++r)
      if (!x.is_here(r)) memory.ranks[r]->use_elsewhere(states_of(r));
  TROUPE_TRY(take_states(order, opening, watch));
  if (memory.masks != nullptr && !x.leads()) TROUPE_TRY(serve_until_masks());
  if (x.leads()) schedule_passes_again();
  TROUPE_TRY(watch.begin("starting the ranks"));
  counts.collectives.clear();
  TROUPE_TRY(start_actors());
  link.on_end([to = actors.members->supervisor, parts = x.parts, shared = x.shared](const core::error& why) {
    post(to, give_up{why.kind, why.text});
    parts->give_up(why);
    shared->stop(why);
  });
  TROUPE_TRY(link.ready(digests_of(plan, memory.ranks, data.loader, host_values), progress.steps));
  if (x.leads() && !x.has_led) count_terms_before(order.order.before, begin_ns);
  x.has_led = x.leads();
  return {};
}

// Takes over the counts of the process that led before, which is lost.
void session::parts::count_terms_before(const cluster::run_so_far& before, int64_t begin_ns) {
  auto& to = processes.counts;
  if (before.degrees.empty()) return;
  to.degrees.clear();
  for (const auto& x : before.degrees) to.degrees.push_back({x.step, x.data});
  to.steps_again = before.steps_again + before.steps - std::min(before.steps, progress.steps);
  to.lost_s = double(before.lost_ns + core::now_ns() - begin_ns) / 1e9;
}

core::result<void> session::parts::take_states(const cluster::term_order& order, const opening_call& opening,
                                               opening_watch& watch) {
  over.lost_step->store(std::numeric_limits<uint64_t>::max());
  processes.kept_step.reset();
  if (!order.order.folder.empty()) {
    TROUPE_ASSIGN(const auto kept, processes.saves->open(order.order.folder, order.files));
    TROUPE_TRY(take_over(kept, {.left_out = opening.load.left_out}, resume_time::while_opening, watch));
    processes.kept_step = progress.steps;
    return {};
  }
  processes.saves->serve();
  if (!opening.load.path.empty()) {
    TROUPE_TRY(resume(opening.load.path, arrived(opening.load), resume_time::while_opening, watch));
    return {};
  }
  progress = {};
  progress.scale = kernels::first_loss_scale(plan.loss_scale);
  data.loader.shape.first_step = data.loader.shape.first_sample = 0;
  TROUPE_TRY(leave_out_from_the_start());
  if (opening.load.left_out) leave_out(*opening.load.left_out);
  TROUPE_TRY(take_layers(watch));
  return make_masks({});
}

// Executes calls until the masks have arrived. The leading process makes masks from weights in all processes, which it
// reads meanwhile.
core::result<void> session::parts::serve_until_masks() {
  for (;;) {
    TROUPE_ASSIGN(const auto next, processes.link->next_call());
    TROUPE_ASSIGN(const auto decoded, decode_call(next.what));
    TROUPE_TRY(obey(next));
    if (std::holds_alternative<masks_call>(decoded)) return {};
  }
}

core::result<void> session::parts::leave_term(const core::error& why) {
  auto& x = processes;
  auto end = x.link->ending();
  if (!end) {
    const auto* const wire = x.shared != nullptr ? x.shared->wire() : nullptr;
    // If no process was lost, the run ends for all.
    x.link->fail(why, wire != nullptr ? wire->lost_place() : cluster::no_place);
    end = x.link->wait_for_end();
  }
  x.link->on_end({});
  const core::error cause{end->kind, end->text};
  if (x.parts != nullptr) x.parts->give_up(cause);
  if (x.shared != nullptr) x.shared->stop(cause);
  if (actors.members != nullptr) {
    actors.stops.connect({});
    actors.members->telemetry = telemetry_actor();
    dismiss_and_wait(*actors.system, *actors.members);
    actors.members.reset();
  }
  x.link->on_note({});
  for (auto* save : {&x.kept, &saving.waiting, &saving.writing}) {
    if (*save == nullptr) continue;
    (*save)->abandon(cause);
    const auto report = (*save)->wait();
    if (save != &x.kept && x.leads() && host.hooks.on_saved) host.hooks.on_saved(report);
    save->reset();
  }
  memory = {};
  modules.instances.reset();
  programs.clear();
  x.parts.reset();
  x.saves.reset();
  x.shared.reset();
  x.members.reset();
  if (end->is_final) {
    if (!over.why) over.why = cause;
    return core::fail(cause);
  }
  x.link->quiet();
  return {};
}

void session::parts::note_loss() {
  if (!processes.is_on() || over.why) return;
  if (const auto end = processes.link->ending()) over.why = core::error{end->kind, end->text};
}

core::result<void> session::parts::recover(const core::error& why) {
  opening_watch unwatched({});
  const bool has_failed = over.why.has_value();
  TROUPE_TRY(leave_term(why));
  // Here a connection has ended, possibly without a cause; the supervisor knows what happened to the process.
  const auto end = processes.link->ending();
  processes.counts.cause = has_failed && end ? end->text : why.text;
  if (auto ok = enter_term(unwatched); !ok) {
    if (!over.why) over.why = ok.error();
    return ok;
  }
  over.why.reset();
  over.states_whole = false;
  ++counts.loads;
  note_degree(processes.counts.degrees, {progress.steps, plan.config->parallel.data});
  go_back_in_records();
  deliver_warnings();
  return {};
}

core::result<void> session::parts::recover_to(uint64_t steps, const core::error& why, int64_t begin_ns) {
  core::error cause = why;
  for (;;) {
    TROUPE_TRY(recover(cause));
    if (!processes.leads())
      return core::fail(error_kind::peer_lost, "another process leads the run now; this one serves it");
    auto& counted = processes.counts;
    const uint64_t again = steps - std::min(steps, progress.steps);
    bool good = true;
    while (good && progress.steps < steps) {
      auto did = train_once();
      good = did.has_value();
      if (!good) cause = did.error();
      if (good && host.hooks.on_step_again) host.hooks.on_step_again(*did);
    }
    counted.steps_again += again;
    if (!good) continue;
    const double lost_s = double(core::now_ns() - begin_ns) / 1e9;
    counted.lost_s += lost_s;
    if (host.hooks.on_term)
      host.hooks.on_term(
          {processes.link->term(), plan.config->parallel.data, progress.steps - again, again, lost_s, counted.cause});
    return {};
  }
}

}  // namespace troupe::actors
