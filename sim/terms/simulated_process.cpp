#include "sim/terms/simulated_process.hpp"

#include <fmt/format.h>

#include <utility>

#include "actors/supervisor.hpp"

namespace troupe::sim {

using namespace actors;

namespace {

constexpr std::chrono::hours for_ever{24};
constexpr int64_t rest_step_ns = 3'000'000;
/// Delay, in ns, of data on the connection between two processes of different machines.
constexpr int64_t connection_delay_ns = 200'000;
constexpr uint32_t boards_offer = 0, first_bell_offer = 1;

/// Returns a descriptor that represents memory or an event; the simulation only tracks which process holds it.
cluster::shared_descriptor thing() { return cluster::own(-1); }

std::string folder_of(uint64_t step) { return fmt::format("/saves/step{}", step); }
uint64_t step_of(const std::string& folder) { return folder.empty() ? 0 : std::stoull(folder.substr(11)); }

/// Name of the file of a save that stores the number of its writers: its size modulo `sizes_of_a_term` is the number of
/// ranks.
constexpr std::string_view count_file = "/of";
/// The size of each file of a save, divided by this number, is the number of the term that has written it.
constexpr uint64_t sizes_of_a_term = 1000;

/// Returns an error text if files of the save are missing or from two saves, or an empty text.
std::string wrong_with(const cluster::term_order& o) {
  size_t ranks = 0, wanted = SIZE_MAX;
  std::optional<uint64_t> term;
  for (const auto& [path, file] : o.files) {
    if (!path.starts_with(o.order.folder + "/")) continue;
    if (path == o.order.folder + std::string(count_file))
      wanted = file.bytes % sizes_of_a_term;
    else
      ++ranks;
    if (term && *term != file.bytes / sizes_of_a_term) return "has files of two terms";
    term = file.bytes / sizes_of_a_term;
  }
  if (ranks > wanted) return "has files of more ranks than have written it";
  return ranks == wanted ? "" : "is not whole";
}

}  // namespace

simulated_process::simulated_process(surroundings& around, uint32_t place, std::unique_ptr<cluster::link> end)
    : around_(around),
      link_(std::move(end)),
      state_(place, around.lost_after_ns, around.clock.now_ns()),
      looked_ns_(around.clock.now_ns()) {
  life_->place = place;
  if (around.between != nullptr) life_->machine = around.between->machines[place];
  around_.watch.begins(life_);
  say(cluster::hello{place, "1", "job"});
  life_script_ = live();
  life_script_.start();
}

simulated_process::~simulated_process() { kill(); }

void simulated_process::kill(bool says) {
  if (says && life_->alive) close_connections();
  life_->alive = false;
  if (!company_) return;
  company_->freeze(for_ever);
  around_.left_behind.push_back(std::move(company_));
}

std::string simulated_process::why() const {
  return life_script_.value() ? std::string() : life_script_.value().error().text;
}

void simulated_process::say(cluster::message m, std::vector<cluster::shared_descriptor> with) {
  (void)link_->send({std::move(m), std::move(with)});
}

void simulated_process::listen() {
  const int64_t now = around_.clock.now_ns();
  looked_ns_ = now;
  bool is_lost = false;
  for (auto came = link_->receive(); !is_lost; came = link_->receive()) {
    is_lost = !came;
    if (!came) follow(state_.lose_supervisor(came.error().text));
    if (!came || came->empty()) break;
    hear(std::move(*came));
  }
  if (is_lost) return;
  if (around_.defect != planted::silence_is_ignored) follow(state_.look(now));
  life_->stopped = false;
  if (const auto mine = state_.due_beat(now)) say(*mine);
}

void simulated_process::hear(std::vector<cluster::parcel> came) {
  for (auto& p : came) {
    const auto* end = std::get_if<cluster::end_term>(&p.what);
    if (end != nullptr && !end->is_final && around_.defect == planted::end_is_ignored) continue;
    if (end != nullptr && !end->is_final && around_.defect == planted::quiet_with_ranks) say(cluster::quiet{end->term});
    follow(state_.hear(std::move(p), around_.clock.now_ns()));
  }
}

void simulated_process::follow(cluster::consequence what) {
  if (what.ended) {
    life_->told = true;
    close_connections();
    if (tells_) company_->give_up(*what.ended);
  }
  if (what.note) ++parts_[std::stoull(what.note->what)];
  if (what.say) say(std::move(*what.say));
}

// Closes the process's connections when its term ends, as machine_wire does; processes on other machines notice the
// end.
void simulated_process::close_connections() {
  if (around_.between == nullptr || life_->term == 0) return;
  for (const auto& s : order_.order.seats) {
    if (s.machine == life_->machine) continue;
    const int64_t due = around_.between->passes(life_->machine, s.machine) + connection_delay_ns;
    around_.between->later(due, [&around = around_, place = life_->place, to = s.place, term = life_->term] {
      if (auto* const other = around.between->at(to)) other->lose_peer(term, place);
    });
  }
}

void simulated_process::lose_peer(uint64_t term, uint32_t place) {
  if (term != life_->term || life_->told || lost_peer_) return;
  lost_peer_ = core::error{error_kind::peer_lost, fmt::format("place {}: it was closed", place)};
  if (tells_) company_->give_up(*lost_peer_);
}

void simulated_process::stop(int64_t ns) {
  life_->stopped = true;
  if (company_) company_->freeze(std::chrono::nanoseconds(ns));
}

uint32_t simulated_process::num_ranks() const {
  const auto& last = order_.order.seats.back();
  return last.first + last.count;
}

// Runs the process until it ends, as `troupe train` does.
script simulated_process::live() {
  const auto leave = [this](const core::error& why) {
    const bool stopped = why.kind == error_kind::stopped;
    say(cluster::leaving{!stopped ? 1 : state_.leads() ? 130 : 0});
  };
  for (;;) {
    std::optional<core::result<cluster::term_order>> next;
    co_await room_.until([&] {
      next = state_.next_term();
      return next.has_value();
    });
    if (!*next) {
      leave(next->error());
      co_return core::fail(next->error());
    }
    order_ = std::move(**next);
    core::result<void> did = co_await be_in_term();
    if (done_) {
      say(cluster::leaving{0});
      co_return core::result<void>();
    }
    core::result<void> left = co_await leave_term(did.error());
    if (left) continue;
    leave(left.error());
    co_return left;
  }
}

script simulated_process::be_in_term() {
  life_->term = state_.term();
  life_->told = state_.ending().has_value();
  lost_peer_.reset();
  copies_left_ = 0;
  around_.watch.uses_term(*life_);
  if (members().keeps()) {
    core::result<void> kept = co_await keep();
    co_return kept;
  }
  if (around_.between != nullptr && around_.between->unfit.contains(life_->machine))
    co_return core::fail(error_kind::io, unfit_text);
  if (has_led_ && !state_.leads())
    co_return core::fail(error_kind::peer_lost, "another process leads the run now; this one serves it");
  has_led_ = state_.leads();
  core::result<void> ok = co_await enter();
  if (!ok) co_return ok;
  if (state_.leads()) {
    ok = co_await lead();
  } else {
    ok = co_await serve();
  }
  co_return ok;
}

void simulated_process::offer(uint32_t number, const cluster::shared_descriptor& what) {
  say(cluster::offer{state_.term(), number}, {what});
}

std::vector<uint32_t> simulated_process::wanted_offers() const {
  std::vector<uint32_t> out;
  const auto who = members();
  if (who.first_place_of(who.machine()) != life_->place) out.push_back(boards_offer);
  for (const auto& s : who.seats)
    if (s.place != life_->place && s.machine == who.machine()) out.push_back(first_bell_offer + s.place);
  return out;
}

// Checks that each file of the save is on this machine, or at a process of the same term on another machine.
void simulated_process::look_at_files() {
  const uint64_t term = state_.term();
  if (order_.order.folder.empty()) return;
  if (const auto wrong = wrong_with(order_); !wrong.empty())
    around_.watch.fail(fmt::format("term {} continues from {}, which {}", term, order_.order.folder, wrong));
  for (const auto& [path, file] : order_.files) {
    if (!path.starts_with(order_.order.folder + "/")) continue;
    if (file.with)
      around_.watch.has_file(term, path, life_->place);
    else
      around_.watch.wants_file(term, path, file.place);
  }
}

// Joins the processes of a term, like make_processes_term.
script simulated_process::enter() {
  const uint64_t term = state_.term();
  const plans_by_choice* const plans = around_.plans(order_.order.data);
  if (plans == nullptr) co_return core::fail(error_kind::bug, "a degree that the job cannot have");
  look_at_files();
  resume_source from = resume_source::memory;
  steps_ = step_of(order_.order.folder);
  if (order_.order.folder.empty()) {
    steps_ = around_.disk_step;
    from = steps_ > 0 ? resume_source::disk : resume_source::beginning;
  }
  runs_ = 0;
  parts_.clear();
  if (state_.leads()) {
    around_.watch.continues_at(steps_);
    note_term(from);
    opening_call opening;
    say(cluster::call{term, ++calls_, encode(peer_call(opening))});
    const plan::job_layout& layout = *plans->front().front()->layout;
    collectives_ = std::make_shared<term_collectives>(
        around_.clock, layout, term, [&watch = around_.watch](uint64_t t, const life& who) { watch.meets(t, who); },
        around_.between != nullptr ? around_.between->passes : passing(),
        around_.links_of ? around_.links_of(*plans, machines_of_ranks()) : std::vector<fabric::linear_link>());
    if (around_.between != nullptr) around_.between->collectives[term] = collectives_;
  } else {
    std::optional<core::result<cluster::call>> first;
    co_await room_.until([&] {
      first = state_.next_call();
      return first.has_value();
    });
    if (!*first) co_return core::fail(first->error());
    const auto opening = decode_call((*first)->what);
    if (!opening || !std::holds_alternative<opening_call>(*opening))
      co_return core::fail(error_kind::bug, "wanted the opening of a term, got another call");
  }
  const auto who = members();
  const auto elsewhere = places_elsewhere();
  if (!elsewhere.empty()) {  // processes on other machines are connected as by machine_wire
    wait_for_cut_links(elsewhere);
    say(cluster::address{term, life_->place, "host", 1});
    std::optional<core::result<std::map<uint32_t, cluster::address>>> known;
    co_await room_.until([&] {
      known = state_.addresses(elsewhere);
      return known.has_value() || lost_peer_.has_value();
    });
    if (!known) co_return core::fail(*lost_peer_);
    if (!*known) co_return core::fail((*known).error());
    collectives_ = around_.between->collectives[term];
  }
  if (who.first_place_of(who.machine()) == life_->place) {
    const auto board = thing();
    around_.collectives[board.get()] = collectives_;
    offer(boards_offer, board);
  }
  offer(first_bell_offer + life_->place, thing());
  std::optional<core::result<std::map<uint32_t, cluster::shared_descriptor>>> offered;
  co_await room_.until([&] {
    offered = state_.take(wanted_offers());
    return offered.has_value();
  });
  if (!*offered) co_return core::fail(offered->error());
  if ((**offered).contains(boards_offer)) collectives_ = around_.collectives[(**offered)[boards_offer].get()];
  company_setup setup{plans, {}, life_, collectives_, around_.seed + term, {}, around_.costs, around_.patience};
  for (const auto& s : order_.order.seats)
    if (s.place == life_->place) setup.seat = s;
  if (term == around_.fault.run) setup.fault = around_.fault;
  company_ = std::make_unique<term_company>(around_.system, around_.clock, setup);
  tells_ = true;
  if (const auto& end = state_.ending()) company_->give_up({end->kind, end->text});
  if (lost_peer_) company_->give_up(*lost_peer_);
  say(cluster::ready{term, fmt::format("plans of {}", order_.order.data)});
  std::optional<core::result<void>> started;
  co_await room_.until([&] {
    started = state_.started();
    return started.has_value();
  });
  if (*started) around_.watch.has_all_files(term);
  co_return *started;
}

// Gives up the connections of the term over links that stay cut for longer than a connection waits.
void simulated_process::wait_for_cut_links(const std::vector<uint32_t>& places) {
  auto& net = *around_.between;
  if (!net.cut_until) return;
  const int64_t gives_up_ns = around_.clock.now_ns() + around_.lost_after_ns;
  for (const uint32_t p : places) {
    if (net.cut_until(life_->machine, net.machines[p]) <= gives_up_ns) continue;
    net.later(gives_up_ns, [this, who = life_, term = life_->term, p] {
      if (who->alive) lose_peer(term, p);
    });
  }
}

std::vector<uint32_t> simulated_process::places_elsewhere() const {
  std::vector<uint32_t> out;
  for (const auto& s : order_.order.seats)
    if (s.machine != life_->machine) out.push_back(s.place);
  return out;
}

// Serves a term without ranks, like keep_for_others: the processes that use its connections notice when they close.
script simulated_process::keep() {
  look_at_files();
  say(cluster::address{state_.term(), life_->place, "host", 1});
  std::optional<core::result<std::map<uint32_t, cluster::address>>> known;
  co_await room_.until([&] {
    known = state_.addresses(places_elsewhere());
    return known.has_value() || lost_peer_.has_value();
  });
  if (!known) co_return core::fail(*lost_peer_);
  if (!*known) co_return core::fail((*known).error());
  say(cluster::ready{state_.term(), {}});
  for (;;) {
    std::optional<core::result<cluster::call>> next;
    co_await room_.until([&] {
      next = state_.next_call();
      return next.has_value();
    });
    if (!*next) co_return core::fail(next->error());
  }
}

bool simulated_process::has_rank(uint32_t rank) const {
  if (life_->term == 0) return false;
  const auto mine = std::ranges::find(order_.order.seats, life_->place, &cluster::seat::place);
  return mine != order_.order.seats.end() && rank >= mine->first && rank < mine->first + mine->count;
}

std::vector<uint32_t> simulated_process::machines_of_ranks() const {
  std::vector<uint32_t> out;
  for (const auto& s : order_.order.seats) out.insert(out.end(), s.count, s.machine);
  return out;
}

void simulated_process::note_term(resume_source from) {
  term_record out;
  out.number = state_.term();
  out.data = order_.order.data;
  for (const auto& s : order_.order.seats) {
    out.ranks += s.count;
    if (s.count > 0) out.processes.push_back(s.place);
  }
  out.from = from;
  out.steps_before = out.steps_after = steps_;
  out.began_ns = around_.clock.now_ns();
  out.cause = order_.order.cause;
  around_.terms.push_back(std::move(out));
}

// Gives the faults of a run to the executors of this process's ranks.
void simulated_process::arm_faults(const run_call& c) {
  run_step_ = c.step + 1;
  armed_.clear();
  if (!around_.faults_of) return;
  const run_of_term what{around_.plans(order_.order.data), machines_of_ranks(), c.which, run_step_};
  for (auto& f : around_.faults_of(what)) {
    if (!has_rank(f.what.rank)) continue;
    f.what.run = c.run;
    armed_.emplace_back(f.number, company_->arm(std::move(f.what)));
  }
}

script simulated_process::run_here(run_call c) {
  life_->has_a_run = true;
  keep_files(c);
  arm_faults(c);
  company_->run(c.which, c.run, c.step);
  co_await room_.until([&] { return company_->outcome().has_value(); });
  struck_ |= company_->has_failed_by_fault();
  for (const auto& [number, here] : armed_)
    if (const int64_t at_ns = company_->struck_ns(here); at_ns >= 0) around_.has_struck(number, at_ns);
  const auto& out = *company_->outcome();
  if (out.failure) co_return core::fail(*out.failure);
  if (c.saves_in_memory) {
    co_await room_.until([&] { return copies_left_ == 0 || state_.end_of_term(); });
    if (copies_left_ > 0) co_return core::fail(error_kind::peer_lost, "a save's copies are not there");
    if (!state_.leads()) say(cluster::answer{state_.term(), 0, life_->place, fmt::to_string(c.run)});
  }
  life_->has_a_run = false;
  co_return core::result<void>();
}

// Writes a file for each rank, like the writers of a real run. The leader is notified once the copies of all files are
// stored, which completes this process's part of the save.
void simulated_process::keep_files(const run_call& c) {
  if (!c.saves_in_memory) return;
  const auto mine = std::ranges::find(order_.order.seats, life_->place, &cluster::seat::place);
  const uint64_t size = sizes_of_a_term * state_.term();
  const auto keep = [&](const std::string& name, uint64_t bytes) {
    say(cluster::kept_file{c.request + name, bytes}, {thing()});
    if (around_.between != nullptr && members().machines().size() > 1) copy_file(c.request + name, bytes);
  };
  for (uint32_t r = mine->first; r < mine->first + mine->count; ++r) keep(fmt::format("/rank{}", r), size);
  if (state_.leads()) keep(std::string(count_file), size + num_ranks());
}

// Copies a file to another machine, like machine_files: the writer waits until the copy is stored or the connection
// ends.
void simulated_process::copy_file(const std::string& path, uint64_t bytes) {
  ++copies_left_;
  const uint32_t to = members().copies_to();
  auto& net = *around_.between;
  const int64_t due = net.passes(life_->machine, net.machines[to]) + connection_delay_ns;
  net.later(due, [this, who = life_, term = life_->term, to, path, bytes] {
    if (!who->alive || who->term != term) return;
    auto* const other = around_.between->at(to);
    if (other != nullptr && other->life_->term == term && !other->life_->told && !who->told)
      other->say(cluster::kept_file{path, bytes}, {thing()});
    --copies_left_;
  });
}

void simulated_process::commit(const run_call& c) {
  if (parts_[c.run] + 1 == members().seats.size())
    say(cluster::kept_save{folder_of(c.step), c.request, c.step});
  else
    around_.watch.fail("a save lacks parts that were told before the run's answers");
}

// Runs a plan on all processes of the term, like run_everywhere.
script simulated_process::run(plan::plan_choice which) {
  run_call c;
  c.run = ++runs_;
  c.step = steps_;
  c.which = which;
  const bool is_asked = which == plan::plan_choice::save;  // a save between two terms
  c.saves_in_memory = saves(which) && (is_for_memory(c.step) || (is_asked && around_.memory_every > 0));
  c.request = fmt::format("/saves/working{}-{}", steps_, state_.term());
  last_run_ = c;
  const uint64_t number = ++calls_;
  say(cluster::call{state_.term(), number, encode(peer_call(c))});
  core::result<void> did = co_await run_here(c);
  if (!did) co_return did;
  std::optional<core::result<std::vector<cluster::answer>>> got;
  co_await room_.until([&] {
    got = state_.answers(number, members().seats.size() - 1);
    return got.has_value();
  });
  if (!*got) co_return core::fail(got->error());
  rank_reports all = *company_->outcome()->ranks;
  for (const auto& a : **got) {
    auto told = decode_run_answer(a.what);
    if (!told) co_return core::fail(told.error());
    for (auto& r : told->reports) all.push_back(std::move(r));
  }
  if (all.size() != num_ranks()) co_return core::fail(error_kind::bug, "a run lacks the reports of some ranks");
  if (const auto why = disagreement(all)) co_return core::fail(*why);
  if (c.saves_in_memory)
    commit(c);
  else if (saves(which))
    around_.disk_step = std::max(around_.disk_step, c.step);
  co_return core::result<void>();
}

bool simulated_process::is_for_disk(uint64_t step) const {
  return step > 0 && around_.disk_every > 0 && step % around_.disk_every == 0;
}
bool simulated_process::is_for_memory(uint64_t step) const {
  return step > 0 && around_.memory_every > 0 && step % around_.memory_every == 0 && !is_for_disk(step);
}

script simulated_process::lead() {
  using plan::plan_choice;
  while (steps_ < around_.steps) {
    if (state_.is_join_wanted()) {  // ends the term so that new processes can join, like end_term_for
      core::result<void> kept = co_await run(plan_choice::save);
      if (!kept) co_return kept;
      state_.forget_join();
      say(cluster::between_steps{state_.term(), 0});
      std::optional<cluster::end_term> end;
      co_await room_.until([&] {
        end = state_.end_of_term();
        return end.has_value();
      });
      co_return core::fail(end->kind, end->text);
    }
    // A step may also save the states from before it, including those with which a later term begins, because copies
    // of their files may be lost with a machine.
    const bool saves_here = is_for_memory(steps_) || is_for_disk(steps_);
    core::result<void> did = co_await run(saves_here ? plan_choice::train_saving : plan_choice::train);
    if (!did) co_return did;
    around_.watch.has_done(++steps_);
    around_.terms.back().steps_after = steps_;
  }
  done_ = true;
  co_return core::result<void>();
}

script simulated_process::serve() {
  for (;;) {
    std::optional<core::result<cluster::call>> next;
    co_await room_.until([&] {
      next = state_.next_call();
      return next.has_value();
    });
    if (!*next) co_return core::fail(next->error());
    const auto call = decode_call((*next)->what);
    if (!call || !std::holds_alternative<run_call>(*call)) co_return core::fail(error_kind::bug, "wanted a run");
    core::result<void> did = co_await run_here(std::get<run_call>(*call));
    if (!did) co_return did;
    run_answer out;
    out.reports = *company_->outcome()->ranks;
    say(cluster::answer{state_.term(), (*next)->number, life_->place, encode(out)});
  }
}

script simulated_process::leave_term(core::error why) {
  std::optional<cluster::end_term> end = state_.ending();
  if (!end) {
    say(cluster::failed{state_.term(), why.kind, why.text});
    co_await room_.until([&] {
      end = state_.end_of_term();
      return end.has_value();
    });
  }
  tells_ = false;
  if (company_) {
    // A lane stops only after the instruction that it runs, which the simulation models as a short wait.
    rested_ns_ =
        around_.clock.now_ns() + static_cast<int64_t>((around_.seed + life_->place + state_.term()) % 4) * rest_step_ns;
    co_await room_.until([&] { return around_.clock.now_ns() >= rested_ns_; });
    rested_ns_ = INT64_MAX;
    company_->dismiss();
    co_await room_.until([&] { return company_->is_at_rest(); });
    company_.reset();
  }
  collectives_.reset();
  life_->term = 0;
  life_->has_a_run = false;
  if (end->is_final) co_return core::fail(end->kind, end->text);
  say(cluster::quiet{state_.term()});
  co_return core::result<void>();
}

}  // namespace troupe::sim
