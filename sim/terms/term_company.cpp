#include "sim/terms/term_company.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "plan/layout/communicators.hpp"

namespace troupe::sim {

using namespace actors;

/// A communicator member that checks before each call whether its process is alive and reachable.
class watched_member final : public fabric::communicator {
 public:
  watched_member(std::shared_ptr<term_collectives> at, shared_life who, uint32_t communicator,
                 std::unique_ptr<fabric::communicator> inner)
      : at_(std::move(at)), who_(std::move(who)), communicator_(communicator), inner_(std::move(inner)) {}
  ~watched_member() override {
    std::erase_if(at_->held_back_, [&](const auto& x) { return x.arrives && x.member.lock() == inner_; });
    if (!who_->alive || passes_ns() > at_->clock_.now_ns()) at_->left_behind_.push_back(std::move(inner_));
  }
  watched_member(const watched_member&) = delete;
  watched_member& operator=(const watched_member&) = delete;

  [[nodiscard]] uint32_t rank() const override { return inner_->rank(); }
  [[nodiscard]] uint32_t size() const override { return inner_->size(); }
  core::result<void> post(const fabric::request& r) override {
    if (!who_->alive) return core::fail(core::error_kind::stopped, "this process was killed");
    at_->posted_(at_->term_, *who_);
    if (!at_->passes_) return inner_->post(r);
    // Other ranks may arrive long after the caller has freed its list of pieces, so the list is copied.
    auto kept = r;
    kept.pieces = at_->kept_pieces_.emplace_back(r.pieces.begin(), r.pieces.end());
    if (!holds_back()) return inner_->post(kept);
    at_->held_back_.push_back({passes_ns(), communicator_, inner_, kept, {}});
    return {};
  }
  core::result<fabric::progress> advance(uint64_t sequence) override {
    if (!who_->alive) return core::fail(core::error_kind::stopped, "this process was killed");
    const auto is_held = [&](const auto& x) {
      return x.arrives && x.arrives->id.sequence == sequence && x.member.lock() == inner_;
    };
    if (std::ranges::any_of(at_->held_back_, is_held)) return fabric::progress::pending;
    return inner_->advance(sequence);
  }
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t sequence) const override { return inner_->missing(sequence); }
  void abort(const core::error& why) override {
    if (!who_->alive) return;
    // Other machines only notice that a connection has ended, not why this process leaves the term.
    if (who_->told) return inner_->abort({core::error_kind::peer_lost, why.text});
    if (!holds_back()) return inner_->abort(why);
    std::erase_if(at_->held_back_, [&](const auto& x) { return x.arrives && x.member.lock() == inner_; });
    at_->held_back_.push_back({passes_ns(), communicator_, inner_, std::nullopt, why});
  }

 private:
  [[nodiscard]] int64_t passes_ns() const { return at_->passes_from(communicator_, who_->machine); }
  /// Returns true if a request of this member must wait, for a partition to end or for an earlier request that waits
  /// for one.
  [[nodiscard]] bool holds_back() const {
    const auto is_mine = [&](const auto& x) { return x.member.lock() == inner_; };
    return passes_ns() > at_->clock_.now_ns() || std::ranges::any_of(at_->held_back_, is_mine);
  }

  std::shared_ptr<term_collectives> at_;
  shared_life who_;
  uint32_t communicator_;
  std::shared_ptr<fabric::communicator> inner_;
};

term_collectives::term_collectives(sim_scheduler& clock, const plan::job_layout& layout, uint64_t term,
                                   std::function<void(uint64_t, const life&)> posted, passing passes,
                                   const std::vector<fabric::linear_link>& links)
    : clock_(clock),
      passes_(std::move(passes)),
      term_(term),
      posted_(std::move(posted)),
      groups_(layout.communicators.size()) {
  uint32_t ranks = 1;
  for (uint32_t c = 0; c < groups_.size(); ++c) {
    const auto& members = layout.communicators[c].members;
    for (const uint32_t r : members) ranks = std::max(ranks, r + 1);
    groups_[c].members.resize(members.size());
    groups_[c].lives.resize(members.size());
    groups_[c].meets = fabric::modelled_group::make(
        static_cast<uint32_t>(members.size()), links.empty() ? fabric::linear_link() : links[c],
        {[&clock] { return clock.now_ns(); },
         [this, c](int64_t delay_ns, uint32_t m, uint64_t sequence) { wake_later(delay_ns, c, m, sequence); }},
        members);
  }
  pulses_ = std::make_shared<pulse_board>(ranks);
}

int64_t term_collectives::passes_from(uint32_t communicator, uint32_t machine) const {
  int64_t out = clock_.now_ns();
  if (!passes_) return out;
  for (const auto& l : groups_[communicator].lives)
    if (l != nullptr && l->machine != machine) out = std::max(out, passes_(machine, l->machine));
  return out;
}

// A partition may begin when all ranks have arrived at a collective. Then some members have received all bytes and
// others have not: half of the wake-ups are delayed until the partition ends.
void term_collectives::wake_later(int64_t delay_ns, uint32_t communicator, uint32_t member, uint64_t sequence) {
  const auto& g = groups_[communicator];
  if ((sequence + member) % 2 == 0 && g.lives[member] != nullptr)
    delay_ns = std::max(delay_ns, passes_from(communicator, g.lives[member]->machine) - clock_.now_ns());
  if (const auto l = g.members[member].lock())
    clock_.post_later(std::chrono::nanoseconds(delay_ns), l->lanes[static_cast<size_t>(plan::lane::fabric)],
                      wake{collective_id{communicator, sequence}.number()});
}

int64_t term_collectives::due_ns() const { return held_back_.empty() ? INT64_MAX : held_back_.front().due_ns; }

void term_collectives::go_on() {
  while (due_ns() <= clock_.now_ns()) {
    const held_back x = std::move(held_back_.front());
    held_back_.pop_front();
    const auto member = x.member.lock();
    if (member == nullptr) continue;
    if (!x.arrives) {
      member->abort(x.why);
      continue;
    }
    (void)member->post(*x.arrives);  // if this fails, advance() returns the error
    wake_later(0, x.communicator, member->rank(), x.arrives->id.sequence);
  }
}

std::shared_ptr<fabric::communicator> term_collectives::join(const shared_life& who,
                                                             const std::shared_ptr<rank_links>& links,
                                                             uint32_t communicator, uint32_t member,
                                                             fabric::waker wake) {
  auto& g = groups_[communicator];
  g.members[member] = links;
  g.lives[member] = who;
  return std::make_shared<watched_member>(shared_from_this(), who, communicator,
                                          g.meets->join(member, std::move(wake)));
}

term_company::term_company(caf::actor_system& system, sim_scheduler& clock, const company_setup& setup)
    : system_(system), clock_(clock), plans_(*setup.plans) {
  models_->costs = setup.costs;
  models_->noise = 0.5;
  models_->seed = setup.seed;
  models_->arm(setup.fault);
  models_->now_ns = [&clock] { return clock.now_ns(); };
  std::vector<rank_parts> ranks(setup.seat.count);
  for (uint32_t i = 0; i < setup.seat.count; ++i) furnish(ranks[i], setup.seat.first + i, setup);
  const auto& options = plans_.front().front()->options();
  loader_setup loader;
  loader.shape.ranks = options.data() / options.sequence_ranks();
  loader.cut = [](const next_batch&) { return std::make_shared<const data::batch>(); };
  company_ = assemble(system, std::move(ranks), std::move(loader), {}, lane_threads::scheduler).value();
}

term_company::~term_company() {
  dismiss();
  for (const auto& a : askers_) caf::anon_send_exit(a, caf::exit_reason::kill);
}

void term_company::furnish(rank_parts& x, uint32_t rank, const company_setup& setup) {
  rank_programs programs;
  for (size_t which = 0; which < plans_.size(); ++which)
    if (rank < plans_[which].size()) {
      programs[which] = std::make_shared<const program>(plans_[which][rank]);
      x.lanes.resize(num_seats(*plans_[which][rank]));
    }
  x.setup.programs = std::make_shared<const rank_programs>(std::move(programs));
  x.setup.patience = setup.patience;
  x.setup.pulses = setup.collectives->pulses();
  for (auto& lane : std::span(x.lanes).subspan(1)) lane = [m = models_] { return make_modelled_executor(m); };
  const auto join = [&](uint32_t c, uint32_t member, fabric::waker wake) {
    return setup.collectives->join(setup.who, x.links, c, member, std::move(wake));
  };
  // The members are moved into the executor, not shared: they must be destroyed with the lane, so that its peers notice
  // it.
  auto held = std::make_shared<memberships>(join_fabric(x, rank, plans_.front().front()->layout->communicators, join));
  x.lanes[static_cast<size_t>(plan::lane::fabric)] = [m = models_, held] {
    return make_modelled_fabric_executor(m, std::move(*held));
  };
}

void term_company::run(plan::plan_choice which, uint64_t number, uint64_t step) {
  auto order = std::make_shared<step_order>();
  order->run = number;
  order->step = step;
  order->collectives_before = collectives_;
  plan::add_collectives(collectives_, plans_[static_cast<size_t>(which)]);
  answer_ = std::make_shared<std::optional<run_outcome>>();
  const auto asker = [](caf::event_based_actor* self, const run_plan& what, const supervisor_actor& to,
                        const std::shared_ptr<std::optional<run_outcome>>& into) {
    self->set_error_handler([](caf::error&) {});
    self->request(to, caf::infinite, what)
        .then([into](run_outcome& o) { *into = std::move(o); },
              [into, self](caf::error& e) {
                run_outcome lost;
                lost.failure = std::make_shared<const core::error>(
                    core::error{core::error_kind::peer_lost, "supervisor ended: " + self->system().render(e)});
                *into = std::move(lost);
              });
  };
  askers_.push_back(system_.spawn(asker, run_plan{which, order}, company_->supervisor, answer_));
}

size_t term_company::arm(sim_fault what) {
  models_->arm(std::move(what));
  return models_->faults.size() - 1;
}

void term_company::give_up(const core::error& why) { post(company_->supervisor, actors::give_up{why.kind, why.text}); }

void term_company::freeze(std::chrono::nanoseconds delay) {
  for_each_actor(*company_, [&](const auto& handle) { clock_.freeze(handle.id(), delay); });
}

void term_company::dismiss() { actors::dismiss(*company_); }

}  // namespace troupe::sim
