#include "actors/peers/process_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "actors/calibrate.hpp"
#include "actors/loading/travelling_load.hpp"
#include "actors/modules/host_run.hpp"
#include "actors/opening/memory_need.hpp"
#include "actors/peers/text_sharing.hpp"
#include "actors/processes/keep_for_others.hpp"
#include "actors/processes/swap_folder_name.hpp"
#include "actors/run/training_run.hpp"
#include "core/clock.hpp"
#include "job/changed_steps.hpp"
#include "job/feasible_degree.hpp"
#include "job/measured_costs.hpp"
#include "storage/files/digest.hpp"

namespace troupe::actors {
namespace {

/// Shortest and longest interval at which a process sends the pulses (progress) of its ranks to the other processes.
constexpr std::chrono::nanoseconds shortest_pulse = std::chrono::milliseconds(10),
                                   longest_pulse = std::chrono::milliseconds(500);

/// Returns lines `what: digest` that must be equal on all processes, because they plan the same step and train on the
/// same tokens.
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
    const auto digest = storage::digest_of(of);
    return fmt::format("{}: {:016x}{:016x}", what, digest.high, digest.low);
  };
  std::string out = line("plan of a step", all);
  if (loader.corpus == nullptr) return out;
  const auto batch = data::make_batch(*loader.corpus, s, s.first_step, 0, 0);
  std::string tokens = fmt::format("{}", loader.corpus->validation_tokens());
  for (const int64_t t : batch.tokens) tokens += fmt::format(" {}", t);
  for (const int64_t t : batch.targets) tokens += fmt::format(" {}", t);
  std::string texts;
  for (const auto& source : plan.config->data.sources)
    texts += (texts.empty() ? "'" : ", '") + source.text.string() + "'";
  return out + "\n" + line("tokens of " + (texts.empty() ? std::string("the data") : texts), tokens);
}

/// Adds `now`, a change of the number of data ranks, to `all`, after removing changes at the same or later steps, which
/// a run that went back has undone.
void note_degree(std::vector<job::degree_change>& all, const job::degree_change& now) {
  std::erase_if(all, [&](const auto& x) { return x.step >= now.step; });
  if (all.empty() || all.back().data != now.data) all.push_back(now);
}

/// Returns a text such as "rank 1 (process 1)" for an error message.
std::string ranks_text(const cluster::place_row& p) {
  const std::string last = p.count > 1 ? fmt::format(" to {}", p.first + p.count - 1) : "";
  return fmt::format("{}{}{} (process {})", p.count > 1 ? "ranks " : "rank ", p.first, last, p.place);
}

/// Completes the diagnosis of ranks between two runs, when the leading process waits until other processes report that
/// they are done: marks the ranks of these processes, and shows rank 0 as waiting for them.
void tell_unanswered(std::vector<rank_diagnosis>& all, const cluster::process& link) {
  const auto people = link.people();
  std::string whom;
  for (const uint32_t place : link.unanswered()) {
    const auto at = std::ranges::find(people.places, place, &cluster::place_row::place);
    if (at == people.places.end()) continue;
    whom += (whom.empty() ? "" : ", ") + ranks_text(*at);
    for (auto& d : all)
      if (d.rank >= at->first && d.rank < at->first + at->count && d.lanes.empty())
        d.lanes = "its process has not said that it is done";
  }
  if (whom.empty() || all.empty() || !all.front().lanes.empty()) return;
  all.front().doing = "waiting";
  all.front().lanes = "waits for " + whom + " to say that it is done";
}

}  // namespace

process_peers::process_peers(training_run& run, const session_options& options)
    : peers(run), kept_costs_(options.kept_costs), choose_resume_(options.choose_resume) {
  links_.link = options.process;
  links_.job = options.file != nullptr ? options.file : run.term->plan.config;
  if (!choose_resume_)
    choose_resume_ = [from = resume_choice{options.resume, options.load}](bool /*again*/) {
      return core::result<resume_choice>(from);
    };
}

// ---- functions that say which process this is and which ranks it has

ranks_here process_peers::here() const { return links_.members ? links_.members->here() : peers::here(); }

std::filesystem::path process_peers::own_folder(const std::filesystem::path& folder) const {
  return folder / swap_folder_name(links_.link->place());
}

core::result<void> process_peers::share(const std::vector<uint64_t>& segment_bytes) {
  TROUPE_ASSIGN(auto shared, shared_term::make(*links_.link, *links_.members, run_.term->plan.train.layout(),
                                               segment_bytes, links_.secret));
  links_.shared = std::move(shared);
  return {};
}

fabric_join process_peers::fabric() const {
  return [shared = links_.shared](uint32_t communicator, uint32_t member, const fabric::waker& wake) {
    return shared->join(communicator, member, wake);
  };
}

core::result<void> process_peers::show_pulses(const std::shared_ptr<pulse_board>& board,
                                              std::chrono::nanoseconds stall_after) {
  return links_.shared->show_pulses(board, std::clamp(stall_after / 16, shortest_pulse, longest_pulse));
}

std::unique_ptr<storage::file_system> process_peers::files_of_machines() const {
  if (!disks_.are_used()) return nullptr;
  return disks_.files();
}

// ---- functions that make all processes of the term work

core::result<run_outcome> process_peers::run(plan::plan_choice which, const std::shared_ptr<step_order>& order) {
  return leads() ? leading_.run(which, order) : run_.steps.run_here(which, order);
}

void process_peers::tell_masks(std::vector<std::vector<uint8_t>> masks) {
  if (leads()) links_.link->tell(encode(peer_call(masks_call{std::move(masks)})));
}

// Begins a new term (time with the same processes) with the changed plan, because the plan needs shared memory of other
// sizes.
core::result<bool> process_peers::take_passes(const plan::plan_options& o) {
  passes_ = chosen_passes{o};
  passes_data_ = run_.term->plan.config->parallel.data;
  TROUPE_TRY(end_term_for(0, "other passes"));
  return true;
}

void process_peers::tell_schedule(std::vector<told_schedule> schedule) {
  links_.link->tell(encode(peer_call(schedule_call{schedule})));
  links_.schedule = std::move(schedule);
}

// Ends the term and begins another from the newest save in memory, which the supervisor keeps and sends to the
// processes. Then saves the states in memory once more, with the new list of left-out samples.
core::result<void> process_peers::go_back_in_memory(std::vector<core::left_out_steps> left_out,
                                                    const std::string& why) {
  left_out_ = std::move(left_out);
  const int64_t begin_ns = core::now_ns();
  links_.link->change(0);
  const auto end = links_.link->wait_for_end();
  auto ok = recover_to(0, {end.kind, why}, begin_ns);
  if (ok) ok = run_.outlast([&] { return save_in_memory_now(); });
  left_out_.reset();
  return ok;
}

// ---- functions that begin a term

core::result<void> process_peers::begin(const session_options& /*options*/, opening_watch& watch) {
  TROUPE_TRY(enter_term(watch));
  note_degree(links_.counts.degrees, {run_.progress.steps, run_.term->plan.config->parallel.data});
  return {};
}

core::result<void> process_peers::enter_term(opening_watch& watch) {
  for (;;) {
    TROUPE_ASSIGN(const auto order, links_.link->next_term());
    const bool keeps = term_members(links_.link->place(), order.order.seats).keeps();
    auto made = keeps ? keep_for_others(*links_.link, order) : begin_term(order, watch);
    if (made) return {};
    TROUPE_TRY(leave_term(made.error()));
  }
}

core::result<void> process_peers::begin_term(const cluster::term_order& order, opening_watch& watch) {
  auto& x = links_;
  auto& link = *x.link;
  const int64_t begin_ns = core::now_ns();
  TROUPE_TRY(watch.begin("beginning a term"));
  x.members = term_members{link.place(), order.order.seats};
  x.secret = order.order.secret;
  x.counts.terms = order.order.number - 1;
  // cause of the first term; replace_term() sets later ones
  if (x.counts.cause.empty()) x.counts.cause = order.order.cause;
  x.counts.network = {};
  leading_.begin_term();
  x.saves = std::make_unique<memory_saves>(link);
  if (disks_.are_used()) x.saves->use_disk(open_for_others);
  x.parts = std::make_shared<part_taker>();
  auto config = x.job;
  if (order.order.data != config->parallel.data)
    config = std::make_shared<const config::job_config>(job::at_degree(*config, order.order.data));

  std::optional<output_sign> sign;  // the file exists until all processes have begun the term
  TROUPE_TRY(disks_.look_at_output(sign));
  auto& modules = run_.modules;
  if (modules.model == nullptr) TROUPE_TRY(share_texts(run_.data, link, *x.members, watch));
  TROUPE_ASSIGN(const auto opening, share_opening(order, *config));
  // The host program's own modules were moved to the ranks of the previous term (time with the same processes), so
  // new ones are made.
  if (modules.model != nullptr && modules.instances == nullptr) {
    TROUPE_ASSIGN(auto prepared, prepare(modules.model, *config));
    modules.instances = std::move(prepared);
  }
  std::string host_values;
  if (modules.instances != nullptr)
    for (const size_t digest : modules.instances->digests()) host_values += fmt::format(" {:x}", digest);
  TROUPE_ASSIGN(auto plan, planned(config, opening, watch));
  run_.term = std::make_unique<run_term>(run_, std::move(plan));
  run_.passes.forget_undone();
  if (leads() && x.counts.terms == 0) run_.host.lines->put_lines(run_.term->plan.early.note);
  x.peak_bytes.assign(run_.term->plan.train.ranks(), 0);
  const bool in_memory = !order.order.folder.empty();  // a save in memory holds all parameters
  const auto weights = in_memory                   ? first_weights::from_checkpoint
                       : opening.load.path.empty() ? first_weights::drawn
                                                   : weights_before(run_, arrived(opening.load));
  TROUPE_TRY(run_.terms.begin({weights, [&](opening_watch& w) { return take_states(order, opening, w); }}, watch));
  link.on_end([to = run_.term->members->supervisor, parts = x.parts, shared = x.shared](const core::error& why) {
    post(to, give_up{why.kind, why.text});
    parts->give_up(why);
    shared->stop(why);
  });
  TROUPE_TRY(link.ready(digests_of(run_.term->plan, run_.term->memory.ranks, run_.term->loader, host_values),
                        run_.progress.steps));
  if (leads() && !has_led_) count_terms_before(order.order.before, begin_ns);
  has_led_ = leads();
  return {};
}

core::result<opening_call> process_peers::share_opening(const cluster::term_order& order,
                                                        const config::job_config& config) {
  auto& link = *links_.link;
  if (leads()) {
    TROUPE_ASSIGN(auto opening, decide(order, config));
    link.tell(encode(opening));
    link.on_note([parts = links_.parts](const cluster::answer& a) { parts->hear(a.what); });
    return opening;
  }
  TROUPE_ASSIGN(const auto call, link.next_call());
  TROUPE_ASSIGN(auto decoded, decode_call(call.what));
  auto* const opening = std::get_if<opening_call>(&decoded);
  if (opening == nullptr)
    return core::fail(error_kind::bug, "processes: wanted the opening of a term, got another call");
  passes_ = opening->passes;
  passes_data_ = config.parallel.data;
  links_.schedule = opening->schedule;
  return std::move(*opening);
}

core::result<opening_call> process_peers::decide(const cluster::term_order& order, const config::job_config& config) {
  opening_call out;
  out.costs = job::costs_of_run(config, kept_costs_, measured_matmul_flops, run_.host.put_warning());
  resume_choice from;
  if (order.order.folder.empty()) {
    TROUPE_ASSIGN(auto chosen, choose_resume_(links_.counts.terms > 0));
    from = std::move(chosen);
    run_.recorder.continue_curves_of(from.path);
  }
  if (disks_.are_used() && !from.path.empty())
    if (const auto folder = native_folder(from.path, from.load.tag); !folder.empty()) {
      from.path = folder;  // `latest` on another machine's disk may name an older one
      from.load.tag.reset();
    }
  from.load.left_out = left_out_;
  out.load = travelling(from.path, from.load, *run_.term->plan.tensor.whole);
  if (passes_data_ != config.parallel.data) passes_.reset();
  out.passes = passes_;
  out.schedule = links_.schedule;
  return out;
}

// Makes the plans of the term (time with the same processes). Only the leading process checks whether the memory is
// enough; the other processes allocate theirs only after that.
core::result<job::blueprint> process_peers::planned(std::shared_ptr<const config::job_config> config,
                                                    const opening_call& opening, opening_watch& watch) const {
  const bool looks = leads();
  TROUPE_ASSIGN(auto out, job::make_blueprint(std::move(config), tables_of(run_.modules), &opening.costs,
                                              {[&] { return watch.go_on(); },
                                               [looks](const job::blueprint& b) {
                                                 return looks ? check_memory(b) : core::result<void>();
                                               }}));
  if (!opening.passes) return out;
  plan::plan_options chosen = opening.passes->of_step;
  chosen.passes = out.options[static_cast<size_t>(plan::plan_choice::train)].passes;
  TROUPE_TRY(job::use_chosen_passes(out, chosen));
  return out;
}

core::result<void> process_peers::take_states(const cluster::term_order& order, const opening_call& opening,
                                              opening_watch& watch) {
  auto& saves = *links_.saves;
  if (auto* const wire = links_.shared->wire())
    saves.use(wire->files(), links_.members->copies_to(), run_.host.put_warning());
  TROUPE_TRY(run_.resumer.look_at_teacher());
  const auto& ranks = run_.term->memory.ranks;
  if (leads())
    for (uint32_t r = 0; r < ranks.size(); ++r)
      if (!is_here(r)) ranks[r]->use_elsewhere(leading_.states_of(r));
  run_.over.lost_step->store(std::numeric_limits<uint64_t>::max());
  keeper_.begin_term(std::nullopt);
  if (!order.order.folder.empty()) {
    TROUPE_ASSIGN(const auto kept, saves.open(order.order.folder, order.files));
    TROUPE_TRY(run_.resumer.take_over(kept, {.left_out = opening.load.left_out}, resume_time::while_opening, watch));
    keeper_.begin_term(run_.progress.steps);
  } else {
    saves.serve();
    if (leads() && links_.counts.terms == 0) TROUPE_TRY(disks_.check_others());
    if (opening.load.path.empty()) {
      run_.progress = {};
      run_.progress.scale = kernels::first_loss_scale(run_.term->plan.loss_scale);
      TROUPE_TRY(run_.resumer.begin(watch, opening.load.left_out));
    } else {
      TROUPE_TRY(run_.resumer.resume(opening.load.path, arrived(opening.load), resume_time::while_opening, watch));
    }
  }
  if (run_.term->pruner.masks() != nullptr && !leads()) TROUPE_TRY(served_.obey_until_masks());
  if (leads()) run_.passes.schedule_again(passes_.has_value(), links_.schedule);
  return {};
}

void process_peers::count_terms_before(const cluster::run_so_far& before, int64_t begin_ns) {
  auto& to = links_.counts;
  if (before.degrees.empty()) return;
  to.degrees.clear();
  for (const auto& x : before.degrees) to.degrees.push_back({x.step, x.data});
  to.steps_again = before.steps_again + before.steps - std::min(before.steps, run_.progress.steps);
  to.lost_s = double(before.lost_ns + core::now_ns() - begin_ns) / 1e9;
}

// ---- functions that end a term and recover from a loss

core::result<void> process_peers::leave_term(const core::error& why) {
  auto& x = links_;
  auto end = x.link->ending();
  if (!end) {
    const auto* const wire = x.shared != nullptr ? x.shared->wire() : nullptr;
    // Reports the failure to the supervisor, with the lost process; if none was lost, the supervisor ends the run for
    // all.
    x.link->fail(why, wire != nullptr ? wire->lost_place() : cluster::no_place);
    end = x.link->wait_for_end();
  }
  x.link->on_end({});
  const core::error cause{end->kind, end->text};
  if (x.parts != nullptr) x.parts->give_up(cause);
  if (x.shared != nullptr) x.shared->stop(cause);
  end_actors(run_, true);
  x.link->on_note({});
  keeper_.abandon(cause);
  run_.saves.abandon(cause, leads());
  run_.term->release();
  run_.modules.instances.reset();
  x.parts.reset();
  x.saves.reset();
  x.shared.reset();
  x.members.reset();
  if (end->is_final) {
    if (!run_.over.why) run_.over.why = cause;
    return core::fail(cause);
  }
  x.link->quiet();
  return {};
}

void process_peers::note_loss() {
  if (run_.over.why) return;
  if (const auto end = links_.link->ending()) run_.over.why = core::error{end->kind, end->text};
}

core::result<void> process_peers::replace_term(const core::error& why) {
  auto& over = run_.over;
  opening_watch unwatched({});
  const bool has_failed = over.why.has_value();
  TROUPE_TRY(leave_term(why));
  // If this process only knows that a connection has ended, the supervisor's reason for the end of the term (time with
  // the same processes) is the cause.
  const auto end = links_.link->ending();
  links_.counts.cause = has_failed && end ? end->text : why.text;
  if (auto ok = enter_term(unwatched); !ok) {
    if (!over.why) over.why = ok.error();
    return ok;
  }
  over.why.reset();
  over.states_whole = false;
  ++run_.counts.loads;
  note_degree(links_.counts.degrees, {run_.progress.steps, run_.term->plan.config->parallel.data});
  run_.recorder.go_back();
  run_.host.deliver();
  return {};
}

core::result<void> process_peers::recover_to(uint64_t steps, const core::error& why, int64_t begin_ns) {
  core::error cause = why;
  const auto& progress = run_.progress;
  for (;;) {
    TROUPE_TRY(replace_term(cause));
    if (!leads()) return core::fail(error_kind::peer_lost, "another process leads the run now; this one serves it");
    if (const uint64_t own = std::min(run_.loop.last_step(), steps); progress.steps < own) {
      run_.over.why = core::error{
          error_kind::peer_lost,
          fmt::format(
              "{}: the run is back at step {}, and step {} trained on batches of the host program, which cannot "
              "be repeated: resume from the last checkpoint, or save in memory after each step "
              "(checkpoint.memory.every_steps: 1)",
              cause.text, progress.steps, own)};
      return core::fail(*run_.over.why);
    }
    if (!run_.rates.can_repeat_from(progress.steps)) {
      run_.over.why = core::error{
          error_kind::peer_lost,
          fmt::format("{}: the run is back at step {}, and the host program has made more than {} changes of rates and "
                      "decays since then, of which the first are no longer known: resume from the last checkpoint, or "
                      "save in memory more often (checkpoint.memory.every_steps)",
                      cause.text, progress.steps, rate_changes_max)};
      return core::fail(*run_.over.why);
    }
    auto& counted = links_.counts;
    const uint64_t again = steps - std::min(steps, progress.steps);
    bool good = true;
    while (good && progress.steps < steps) {
      auto did = run_.steps.train_once();
      good = did.has_value();
      if (!good) cause = did.error();
      if (good && run_.host.hooks.on_step_again) run_.host.hooks.on_step_again(*did);
    }
    counted.steps_again += again;
    if (!good) continue;
    const double lost_s = double(core::now_ns() - begin_ns) / 1e9;
    counted.lost_s += lost_s;
    if (run_.host.hooks.on_term)
      run_.host.hooks.on_term({links_.link->term(), run_.term->plan.config->parallel.data, progress.steps - again,
                               again, lost_s, counted.cause});
    return {};
  }
}

core::result<void> process_peers::end_term_for(uint32_t data, const std::string& cause) {
  return run_.outlast([&]() -> core::result<void> {
    const int64_t begin_ns = core::now_ns();
    if (auto ok = run_.saves.end_saves(); !ok && run_.over.why) return ok;
    TROUPE_TRY(save_in_memory_now());
    links_.link->change(data);
    const auto end = links_.link->wait_for_end();
    return recover_to(run_.progress.steps, {end.kind, cause.empty() ? end.text : cause}, begin_ns);
  });
}

core::result<void> process_peers::let_join() {
  return links_.link->is_join_wanted() ? end_term_for(0) : core::result<void>();
}

core::result<void> process_peers::change_degrees(std::shared_ptr<const config::job_config> next) {
  const uint32_t data = next->parallel.data, most = links_.job->parallel.data;
  if (data > most)
    return core::fail(
        error_kind::bad_input,
        fmt::format("--degrees: wanted at most {} data ranks, for which the job's processes were started, "
                    "got {}",
                    most, data));
  return end_term_for(data);
}

bool process_peers::has_losses() const {
  return !run_.over.why && run_.term->memory.offloaded == nullptr && links_.link->ending().has_value();
}

core::result<void> process_peers::recover() {
  if (!has_losses()) return {};
  const auto end = links_.link->ending();
  return recover_to(run_.progress.steps, {end->kind, end->text}, core::now_ns());
}

core::result<void> process_peers::serve() {
  while (!leads()) {
    core::result<void> did;
    if (const auto call = links_.link->next_call())
      did = served_.obey(*call);
    else
      did = core::fail(call.error());
    if (did) continue;
    TROUPE_TRY(replace_term(did.error()));
    // This process repeats no step: if it leads now, its program continues at the step to which the run has returned.
    run_.rates.forget();
    run_.loop.go_back(run_.progress.steps);
  }
  return {};
}

// ---- functions for diagnosis and for the end of the session

std::string process_peers::slow_links_of_run() const { return actors::slow_links_of_run(leading_.slow_link_ends()); }

void process_peers::explain_waits(std::vector<rank_diagnosis>& all) const { tell_unanswered(all, *links_.link); }

void process_peers::close_line() {
  links_.link->on_end({});
  links_.link->on_note({});
}

void process_peers::end() {
  if (links_.shared != nullptr) links_.shared->stop({core::error_kind::stopped, "the session has ended"});
}

}  // namespace troupe::actors
