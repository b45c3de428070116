#include "tests/sim/simulated_process.hpp"

#include <utility>

#include "actors/supervisor.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;

constexpr std::chrono::hours for_ever{24};
constexpr int64_t rest_step_ns = 3'000'000;
constexpr uint32_t boards_offer = 0, first_bell_offer = 1;

/// Memory and events of a simulation: what counts is who has which.
cluster::shared_descriptor thing() { return cluster::own(-1); }

std::string folder_of(uint64_t step) { return "/saves/step" + std::to_string(step); }
uint64_t step_of(const std::string& folder) { return folder.empty() ? 0 : std::stoull(folder.substr(11)); }

/// The file of a save that says how many ranks have written it.
constexpr std::string_view count_file = "/of";

/// Whether a save's files are all there.
bool is_whole(const cluster::term_order& o) {
  size_t ranks = 0, wanted = SIZE_MAX;
  for (const auto& [path, file] : o.files) {
    if (!path.starts_with(o.order.folder + "/")) continue;
    if (path == o.order.folder + std::string(count_file))
      wanted = file.bytes;
    else
      ++ranks;
  }
  return ranks >= wanted;
}

}  // namespace

simulated_process::simulated_process(surroundings& around, uint32_t place, std::unique_ptr<cluster::link> end)
    : around_(around),
      link_(std::move(end)),
      state_(place, around.lost_after_ns, around.clock.now_ns()),
      looked_ns_(around.clock.now_ns()) {
  life_->place = place;
  around_.watch.begins(life_);
  say(cluster::hello{place, "1", "job"});
  life_script_ = live();
  life_script_.start();
}

simulated_process::~simulated_process() { kill(); }

void simulated_process::kill() {
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
  auto came = link_->receive();
  if (!came) return follow(state_.lose_supervisor(came.error().text));
  for (auto& p : *came) {
    const auto* end = std::get_if<cluster::end_term>(&p.what);
    if (end != nullptr && !end->is_final && around_.defect == planted::end_is_ignored) continue;
    if (end != nullptr && !end->is_final && around_.defect == planted::quiet_with_ranks) say(cluster::quiet{end->term});
    follow(state_.hear(std::move(p)));
  }
  follow(state_.look(now, !came->empty()));
  if (state_.beats(now)) say(cluster::beat{});
}

void simulated_process::follow(cluster::consequence what) {
  if (what.ended && tells_) company_->give_up(*what.ended);
  if (what.note) ++parts_[std::stoull(what.note->what)];
  if (what.say) say(std::move(*what.say));
}

void simulated_process::stop(int64_t ns) {
  if (company_) company_->freeze(std::chrono::nanoseconds(ns));
}

uint32_t simulated_process::num_ranks() const {
  const auto& last = order_.order.seats.back();
  return last.first + last.count;
}

// Its exit code is that of `troupe train`.
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
  around_.watch.uses_term(*life_);
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
  if (!state_.leads()) out.push_back(boards_offer);
  for (const auto& s : order_.order.seats)
    if (s.place != life_->place) out.push_back(first_bell_offer + s.place);
  return out;
}

// As make_processes_term.
script simulated_process::enter() {
  const uint64_t term = state_.term();
  const auto plans = around_.plans.find(order_.order.data);
  if (plans == around_.plans.end()) co_return core::fail(error_kind::bug, "a degree that the job cannot have");
  if (!order_.order.folder.empty() && !is_whole(order_))
    around_.watch.fail("term " + std::to_string(term) + " continues from " + order_.order.folder +
                       ", which is not whole");
  steps_ = step_of(order_.order.folder);
  runs_ = 0;
  parts_.clear();
  if (state_.leads()) {
    around_.watch.continues_at(steps_);
    opening_call opening;
    say(cluster::call{term, ++calls_, encode(peer_call(opening))});
    meetings_ =
        std::make_shared<term_meetings>(around_.clock, *plans->second.front().front()->layout, term,
                                        [&watch = around_.watch](uint64_t t, const life& who) { watch.meets(t, who); });
    const auto board = thing();
    around_.meetings[board.get()] = meetings_;
    offer(boards_offer, board);
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
  offer(first_bell_offer + life_->place, thing());
  std::optional<core::result<std::map<uint32_t, cluster::shared_descriptor>>> offered;
  co_await room_.until([&] {
    offered = state_.take(wanted_offers());
    return offered.has_value();
  });
  if (!*offered) co_return core::fail(offered->error());
  if (!state_.leads()) meetings_ = around_.meetings[(**offered)[boards_offer].get()];
  company_setup setup{&plans->second, {}, life_, meetings_, around_.seed + term, {}};
  for (const auto& s : order_.order.seats)
    if (s.place == life_->place) setup.seat = s;
  if (term == around_.fault.run) setup.fault = around_.fault;
  company_ = std::make_unique<term_company>(around_.system, around_.clock, setup);
  tells_ = true;
  if (const auto& end = state_.ending()) company_->give_up({end->kind, end->text});
  say(cluster::ready{term, "plans of " + std::to_string(order_.order.data)});
  std::optional<core::result<void>> started;
  co_await room_.until([&] {
    started = state_.started();
    return started.has_value();
  });
  co_return *started;
}

script simulated_process::run_here(run_call c) {
  life_->has_a_run = true;
  keep_files(c);
  company_->run(c.which, c.run, c.step);
  co_await room_.until([&] { return company_->outcome().has_value(); });
  struck_ |= company_->has_failed_by_fault();
  const auto& out = *company_->outcome();
  if (out.failure) co_return core::fail(*out.failure);
  life_->has_a_run = false;
  co_return core::result<void>();
}

// A file of each rank, as the writers of a real run; then who leads hears that this process's part is there.
void simulated_process::keep_files(const run_call& c) {
  if (!c.saves_in_memory) return;
  const auto& seats = order_.order.seats;
  const auto mine = std::ranges::find(seats, life_->place, &cluster::seat::place);
  for (uint32_t r = mine->first; r < mine->first + mine->count; ++r)
    say(cluster::kept_file{c.request + "/rank" + std::to_string(r), 1}, {thing()});
  if (state_.leads())
    say(cluster::kept_file{c.request + std::string(count_file), num_ranks()}, {thing()});
  else
    say(cluster::answer{state_.term(), 0, life_->place, std::to_string(c.run)});
}

void simulated_process::commit(const run_call& c) {
  if (parts_[c.run] + 1 == order_.order.seats.size())
    say(cluster::kept_save{folder_of(c.step), c.request, c.step});
  else
    around_.watch.fail("a save lacks parts that were told before the run's answers");
}

// As run_everywhere.
script simulated_process::run(plan::plan_choice which) {
  run_call c;
  c.run = ++runs_;
  c.step = steps_;
  c.which = which;
  c.saves_in_memory = saves(which);
  c.request = "/saves/working" + std::to_string(steps_);
  last_run_ = c;
  const uint64_t number = ++calls_;
  say(cluster::call{state_.term(), number, encode(peer_call(c))});
  core::result<void> did = co_await run_here(c);
  if (!did) co_return did;
  std::optional<core::result<std::vector<cluster::answer>>> got;
  co_await room_.until([&] {
    got = state_.answers(number, order_.order.seats.size() - 1);
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
  if (saves(which)) commit(c);
  co_return core::result<void>();
}

script simulated_process::lead() {
  using plan::plan_choice;
  for (bool has_save = true; steps_ < around_.steps;) {
    if (state_.is_join_wanted()) {  // as end_term_for
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
    // The states that it has begun with are kept already.
    core::result<void> did = co_await run(has_save ? plan_choice::train : plan_choice::train_saving);
    if (!did) co_return did;
    has_save = false;
    around_.watch.has_done(++steps_);
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
    // A lane ends after what it is in.
    rested_ns_ =
        around_.clock.now_ns() + static_cast<int64_t>((around_.seed + life_->place + state_.term()) % 4) * rest_step_ns;
    co_await room_.until([&] { return around_.clock.now_ns() >= rested_ns_; });
    rested_ns_ = INT64_MAX;
    company_->dismiss();
    co_await room_.until([&] { return company_->is_at_rest(); });
    company_.reset();
  }
  meetings_.reset();
  life_->term = 0;
  life_->has_a_run = false;
  if (end->is_final) co_return core::fail(end->kind, end->text);
  say(cluster::quiet{state_.term()});
  co_return core::result<void>();
}

}  // namespace troupe::actors
