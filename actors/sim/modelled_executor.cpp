#include "actors/sim/modelled_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>

#include "actors/hands/fabric_executor.hpp"
#include "fabric/modelled.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/pieces.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::actors {
namespace {

constexpr std::string_view fault_names[] = {
    "no fault",           "slow lane",         "late message",      "frozen lane",    "frozen rank",
    "frozen watcher",     "frozen loader",     "frozen disk",       "frozen process", "killed rank",
    "killed lane",        "killed node agent", "killed supervisor", "killed loader",  "executor error",
    "executor exception", "wrong identity",    "bad vote",          "silence",        "cut link"};

// Applies those faults that the executor of instruction `x` causes, on any lane: returns an error, throws, or returns
// true if the instruction must never end.
core::result<bool> fails_here(modelled_world& w, const step_context& c, const plan::instruction& x) {
  if (const sim_fault* f = w.strikes(sim_fault_kind::executor_error, c, x))
    return core::fail(f->error, f->text.empty() ? "simulated: the executor refuses" : f->text);
  if (w.strikes(sim_fault_kind::executor_exception, c, x) != nullptr)
    throw std::runtime_error("simulated: the executor throws");
  return w.strikes(sim_fault_kind::silence, c, x) != nullptr;
}

class modelled_executor final : public executor {
 public:
  explicit modelled_executor(std::shared_ptr<modelled_world> world) : world_(std::move(world)) {}

  void attach(timer t) override { timer_ = std::move(t); }

  void begin(std::shared_ptr<step_context> context) override {
    context_ = std::move(context);
    const auto& p = context_->plan();
    random_.seed(world_->seed * 31 + context_->order.run * 7 + p.rank);
  }

  core::result<progress> start(const plan::instruction& x) override {
    world_->note(*context_, x.id, false);
    TROUPE_ASSIGN(auto silent, fails_here(*world_, *context_, x));
    if (silent) return progress::pending;
    double seconds = context_->acts(x.guard) ? plan::predicted_seconds(context_->plan(), x, world_->costs) : 0;
    if (plan::ends_late(x)) seconds = hand_over(x, seconds);
    if (x.kind == plan::kind::snapshot) seconds += seconds_until_free(x);
    const double factor = 1 + world_->noise * std::uniform_real_distribution<double>(0, 1)(random_);
    const slowdown slow = slowdown_of(x);
    auto delay = std::chrono::nanoseconds(static_cast<int64_t>(seconds * factor * slow.factor * 1e9)) + slow.more;
    if (x.lane == plan::lane::io) delay = after_other_swaps(delay);
    if (delay.count() == 0) {
      world_->note(*context_, x.id, true);
      return progress::done;
    }
    timer_(delay, x.id);
    return progress::pending;
  }

  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override {
    const auto id = static_cast<uint32_t>(sequence);
    const int64_t frozen_ns = world_->disk_frozen_until_ns - world_->now_ns();
    if (frozen_ns > 0 && asks_disk(context_->plan().instructions[id].lane)) {
      timer_(std::chrono::nanoseconds(frozen_ns), id);
      return std::nullopt;
    }
    world_->note(*context_, id, true);
    return id;
  }

 private:
  // Models the write of a block that takes `seconds`: all ranks share one disk, which writes one block after the other,
  // and the block's staging slot is in use until its bytes are written. Returns 0, the time that the instruction itself
  // takes: only the slot's next user waits.
  double hand_over(const plan::instruction& x, double seconds) {
    const auto& p = context_->plan();
    if (world_->writes_together) {
      occupied_by_[p.buffers[x.slots.staging].offset] = world_->write_together(seconds, world_->ranks_of(p.rank));
      return 0;
    }
    const auto begin = std::max(world_->now_ns(), world_->disk_free_ns);
    occupied_until_ns_[p.buffers[x.slots.staging].offset] = world_->disk_free_ns =
        begin + static_cast<int64_t>(seconds * 1e9);
    return 0;
  }
  [[nodiscard]] double seconds_until_free(const plan::instruction& x) {
    const uint64_t offset = context_->plan().buffers[x.slots.staging].offset;
    int64_t until_ns = 0;
    if (!world_->writes_together) {
      until_ns = occupied_until_ns_[offset];
    } else if (const auto by = occupied_by_.find(offset); by != occupied_by_.end()) {
      until_ns = world_->written_at_ns[by->second];
    }
    return std::max(0.0, double(until_ns - world_->now_ns()) / 1e9);
  }

  // Returns the time until a swap that takes `alone` has ended: a rank's swaps start ahead, and move bytes one after
  // the other, as plan::predict() assumes.
  std::chrono::nanoseconds after_other_swaps(std::chrono::nanoseconds alone) {
    const int64_t now_ns = world_->now_ns();
    swaps_end_ns_ = std::max(now_ns, swaps_end_ns_) + alone.count();
    return std::chrono::nanoseconds(swaps_end_ns_ - now_ns);
  }

  struct slowdown {
    double factor = 1;
    std::chrono::nanoseconds more{0};
  };
  // Returns how much longer an instruction takes: of the faults that slow it, the largest factor and the longest time.
  slowdown slowdown_of(const plan::instruction& x) {
    slowdown out;
    for (auto& f : world_->faults) {
      const sim_fault& slow = f.what;
      if (slow.kind != sim_fault_kind::slow_lane || slow.rank != context_->plan().rank || slow.lane != x.lane) continue;
      if (slow.run != any_run && slow.run != context_->order.run) continue;
      if (slow.moment == sim_moment::time && world_->now_ns() < slow.at_ns) continue;
      const bool alone = slow.moment == sim_moment::instruction;
      if (alone && context_->program->position[x.id] != slow.position) continue;
      if (!f.struck()) f.struck_ns = world_->now_ns();
      out.factor = std::max(out.factor, slow.factor);
      if (alone) out.more = std::max(out.more, slow.delay);
    }
    return out;
  }

  std::shared_ptr<modelled_world> world_;
  std::shared_ptr<step_context> context_;
  timer timer_;
  std::mt19937_64 random_;
  int64_t swaps_end_ns_ = 0;  // virtual time at which all swaps that have started have ended
  // [byte offset of a staging slot]: virtual time until which the slot is in use.
  std::map<uint64_t, int64_t> occupied_until_ns_;
  // [byte offset of a staging slot]: moment of modelled_world::written_at_ns whose blocks its last one is of.
  std::map<uint64_t, size_t> occupied_by_;
};

class modelled_fabric_executor final : public executor {
 public:
  modelled_fabric_executor(std::shared_ptr<modelled_world> world, memberships communicators)
      : world_(std::move(world)), communicators_(std::move(communicators)) {}

  void begin(std::shared_ptr<step_context> context) override {
    context_ = std::move(context);
    fill_votes();
  }

  core::result<progress> start(const plan::instruction& x) override {
    world_->note(*context_, x.id, false);
    TROUPE_ASSIGN(auto silent, fails_here(*world_, *context_, x));
    // After the fault of a silent instruction, the lane starts no later collective either, because a post out of order
    // would be another fault.
    if (silent_ |= silent; silent_) return progress::pending;
    auto r = describe_collective(*context_, x, world_->pieces.of(context_->plan(), x));
    if (x.kind == plan::kind::vote && world_->acts_for.empty())
      r.input = r.output = reinterpret_cast<std::byte*>(context_->votes.data());
    // Another member must exist to detect the wrong identity.
    const bool meets = context_->plan().layout->communicators[x.communicator].members.size() > 1;
    if (meets && world_->strikes(sim_fault_kind::wrong_identity, *context_, x) != nullptr)
      r.id.what += " of another plan";
    const auto met = meet(*communicators_[x.communicator], r);
    if (met && *met == progress::done) end(x);
    return met;
  }

  core::result<std::optional<uint32_t>> advance(uint64_t number) override {
    const auto ended = go_on(communicators_, *context_, number);
    if (ended && *ended) end(context_->plan().instructions[**ended]);
    return ended;
  }

  void abort(const core::error& why) override { abort_all(communicators_, why); }

 private:
  // Sets the numbers that ranks exchange in the vote: a rank's own are right from the start; those of other ranks are
  // wrong until the vote has brought them. Where ranks act for others, which are not there to send theirs, and where
  // the vote has more bytes than a modelled collective moves, all are right.
  void fill_votes() {
    const auto& p = context_->plan();
    auto& votes = context_->votes;
    for (size_t i = 0; i < votes.size(); ++i) votes[i] = 1 + double(i % 7) / 8;
    if (world_->clip_in_run == context_->order.run && p.layout->num_blocks > 0)
      votes[world_->seed % p.layout->num_blocks] = 1e6 * modelled_norm_limit * modelled_norm_limit;
    if (world_->overflow_in_run == context_->order.run && p.layout->num_blocks > 0)
      votes[world_->seed % p.layout->num_blocks] = std::numeric_limits<double>::infinity();
    const bool are_moved = votes.size() * sizeof(votes[0]) <= fabric::modelled_move_bytes_max;
    if (!world_->acts_for.empty() || !are_moved) return;
    for (const auto& piece : world_->pieces.vote(p))
      for (uint64_t i = 0; piece.owner != p.rank && i < piece.count; ++i) votes[piece.to + i] = -1;
  }

  void end(const plan::instruction& x) {
    world_->note(*context_, x.id, true);
    if (x.kind == plan::kind::vote && world_->strikes(sim_fault_kind::bad_vote, *context_, x) != nullptr)
      context_->votes[plan::loss_offset(*context_->plan().layout, 0, 0)] += 1;
  }

  std::shared_ptr<modelled_world> world_;
  memberships communicators_;
  std::shared_ptr<step_context> context_;
  bool silent_ = false;
};

}  // namespace

shared_pieces::of_layout& shared_pieces::entry(const plan::rank_plan& p) {
  return layouts_.try_emplace(p.layout.get(), p.layout).first->second;
}

std::span<const fabric::piece> shared_pieces::of(const plan::rank_plan& p, const plan::instruction& x) {
  of_layout& here = entry(p);
  const auto [it, is_new] = here.known.try_emplace(
      {x.kind, x.use, x.subject, x.segment, x.piece, x.near, x.repeats, x.communicator, x.moved_bytes});
  if (is_new)
    for (const auto& m : here.all.of(x)) it->second.push_back({m.owner, m.from, m.to, m.count});
  return it->second;
}

const std::vector<plan::moved_piece>& shared_pieces::vote(const plan::rank_plan& p) {
  of_layout& here = entry(p);
  if (!here.vote) here.vote = here.all.vote();
  return *here.vote;
}

std::string_view name_of(sim_fault_kind kind) { return fault_names[static_cast<size_t>(kind)]; }

std::string sim_fault::describe() const {
  std::string when;
  if (moment == sim_moment::events) when = fmt::format(", after {} events", after_events);
  if (moment == sim_moment::time) when = fmt::format(", at {} ns", at_ns);
  return fmt::format("{} (run {}, rank {}, {} lane, position {}{})", name_of(kind), run, rank, plan::name_of(lane),
                     position, when);
}

const sim_fault* modelled_world::strikes(sim_fault_kind kind, const step_context& c, const plan::instruction& x) {
  for (auto& f : faults) {
    const sim_fault& what = f.what;
    if (f.struck() || what.kind != kind || what.rank != c.plan().rank || what.lane != x.lane) continue;
    if (what.run != any_run && what.run != c.order.run) continue;
    // A step has one vote, so the fault's position is not compared for a wrong vote.
    if (kind != sim_fault_kind::bad_vote && c.program->position[x.id] != what.position) continue;
    f.struck_ns = now_ns();
    return &what;
  }
  return nullptr;
}

void modelled_world::freeze_disk(std::chrono::nanoseconds delay) {
  disk_frozen_until_ns = now_ns() + delay.count();
  disk_free_ns = std::max(disk_free_ns, now_ns()) + delay.count();
}

size_t modelled_world::write_together(double seconds, uint32_t blocks) {
  if (disk_moment_ns != now_ns()) {
    disk_moment_ns = now_ns();
    disk_free_ns = std::max(disk_free_ns, disk_moment_ns);
    written_at_ns.push_back(disk_free_ns);
  }
  disk_free_ns += int64_t{blocks} * static_cast<int64_t>(seconds * 1e9);
  written_at_ns.back() = disk_free_ns;
  return written_at_ns.size() - 1;
}

std::unique_ptr<executor> make_modelled_executor(std::shared_ptr<modelled_world> world) {
  return std::make_unique<modelled_executor>(std::move(world));
}
std::unique_ptr<executor> make_modelled_fabric_executor(std::shared_ptr<modelled_world> world,
                                                        memberships communicators) {
  return std::make_unique<modelled_fabric_executor>(std::move(world), std::move(communicators));
}

}  // namespace troupe::actors
