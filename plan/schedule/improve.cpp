#include "plan/schedule/improve.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/math.hpp"

namespace troupe::plan {

namespace {

constexpr double never_ends = std::numeric_limits<double>::infinity();
constexpr uint32_t remembered_totals = 40;

// Actions [first, last] of a rank's order without idle time in between: each starts when the previous action ends.
struct block {
  uint32_t rank = 0;
  size_t first = 0, last = 0;
};

// Computes the times of the actions of a pipeline table, fast enough for many tables that differ little. The table has
// only F (forward), I and W (input part and weight part of a backward).
class fast_player {
 public:
  explicit fast_player(const pipeline_problem& p)
      : p_(p),
        stages_(static_cast<uint32_t>(p.rank_of_stage.size())),
        starts_(p.ranks),
        ends_(p.ranks),
        next_(p.ranks) {
    for (auto& done : done_) done.resize(size_t{stages_} * p.micro_batches);
  }

  // Returns the time when the last action ends; `never_ends` if the ranks wait for each other in a cycle.
  double play(const pipeline_table& t) {
    for (auto& done : done_) std::ranges::fill(done, place{});
    size_t left = 0;
    for (uint32_t r = 0; r < p_.ranks; ++r) {
      left += t.orders[r].size();
      starts_[r].resize(t.orders[r].size());
      ends_[r].resize(t.orders[r].size());
    }
    std::ranges::fill(next_, 0);
    for (bool any = true; any && left > 0;) {
      any = false;
      for (uint32_t r = 0; r < p_.ranks; ++r)
        for (const auto& order = t.orders[r]; next_[r] < order.size() && step(r, order[next_[r]]); --left) any = true;
    }
    if (left > 0) return never_ends;
    double total = 0;
    for (const auto& ends : ends_) total = ends.empty() ? total : std::max(total, ends.back());
    return total;
  }

  // Finds the blocks of two or more actions on the critical path of the table that was passed to play() last.
  void find_blocks(const pipeline_table& t, std::vector<block>& out) const {
    out.clear();
    uint32_t r = 0;
    for (uint32_t q = 1; q < p_.ranks; ++q)
      if (ends_[q].back() > ends_[r].back()) r = q;
    size_t i = ends_[r].size() - 1;
    while (true) {
      block b{r, i, i};
      while (b.first > 0 && ends_[r][b.first - 1] == starts_[r][b.first]) --b.first;
      if (b.first < b.last) out.push_back(b);
      const place from = source(t.orders[r][b.first]);
      if (from.rank == none) return;
      r = from.rank;
      i = from.position;
    }
  }

 private:
  struct place {
    uint32_t rank = none, position = 0;
  };

  [[nodiscard]] size_t at(uint32_t stage, uint32_t micro) const { return size_t{stage} * p_.micro_batches + micro; }
  // Returns rank and position of the computation whose result `a` reads from another stage; the rank is none if `a`
  // reads no such result, or if the result does not exist yet.
  [[nodiscard]] place source(const action& a) const {
    if (a.type == action_type::forward && a.stage > 0) return done_[0][at(a.stage - 1, a.micro)];
    if (a.type == action_type::backward_input && a.stage + 1 < stages_) return done_[1][at(a.stage + 1, a.micro)];
    return {};
  }
  bool step(uint32_t r, const action& a) {
    const bool takes =
        a.type == action_type::forward ? a.stage > 0 : a.type == action_type::backward_input && a.stage + 1 < stages_;
    const size_t i = next_[r];
    double start = i > 0 ? ends_[r][i - 1] : 0;
    if (takes) {
      const place from = source(a);
      if (from.rank == none) return false;
      start = std::max(start, ends_[from.rank][from.position] + (from.rank == r ? 0 : p_.costs->transfer_s));
    }
    const stage_cost& c = p_.costs->stages[a.stage];
    starts_[r][i] = start;
    ends_[r][i] = start + (a.type == action_type::forward          ? c.forward_s
                           : a.type == action_type::backward_input ? c.backward_input_s
                                                                   : c.backward_weight_s);
    if (a.type != action_type::backward_weight)
      done_[a.type == action_type::forward ? 0 : 1][at(a.stage, a.micro)] = {r, static_cast<uint32_t>(i)};
    ++next_[r];
    return true;
  }

  const pipeline_problem& p_;
  uint32_t stages_;
  std::vector<std::vector<double>> starts_, ends_;  // [rank][position]: seconds at which the action starts and ends
  std::vector<size_t> next_;                        // [rank]: position of the rank's next action
  std::array<std::vector<place>, 2> done_;          // [0 for F, 1 for I][stage * micro_batches + micro]: place of the
                                                    // computation
};

class climber {
 public:
  climber(const pipeline_problem& p, pipeline_table t, const improve_effort& effort)
      : p_(p), effort_(effort), player_(p), now_(std::move(t)) {}

  pipeline_table run() {
    for (const auto& order : now_.orders) actions_ += order.size();
    pipeline_table best = now_;
    double now_s = player_.play(now_), best_s = now_s;
    std::array<double, remembered_totals> remembered;
    remembered.fill(now_s);
    player_.find_blocks(now_, blocks_);
    uint64_t n = 0;
    for (uint64_t spent = actions_; spent < effort_.actions && best_s > effort_.enough_s && !blocks_.empty();) {
      double& before = remembered[n++ % remembered_totals];
      const double s = try_move();
      spent += to_ == from_ ? 1 : actions_;
      if (s != never_ends && (s <= now_s || s <= before)) {
        now_s = s;
        player_.find_blocks(now_, blocks_);
      } else if (s != never_ends) {
        undo();
      }
      before = std::min(before, now_s);
      if (now_s >= best_s) continue;
      best_s = now_s;
      best = now_;
    }
    return best;
  }

 private:
  uint64_t random(uint64_t below) { return core::mix64(++drawn_) % below; }

  // True if two actions of a rank may be exchanged in its order. Effects on other ranks are known only after play().
  static bool may_pass(const action& a, const action& b) {
    return a.stage != b.stage || (a.type != b.type && a.micro != b.micro);
  }
  [[nodiscard]] bool fits(const std::vector<action>& order) const {
    if (p_.memory_bytes == UINT64_MAX) return true;
    uint64_t kept = 0;
    for (const action& a : order) {
      const stage_cost& c = p_.costs->stages[a.stage];
      if (a.type == action_type::forward) kept += c.activation_bytes;
      if (a.type == action_type::backward_input)
        kept += c.weight_part_bytes - c.activation_bytes;  // a negative difference wraps around, and so does the sum,
                                                           // which is therefore right
      if (a.type == action_type::backward_weight) kept -= c.weight_part_bytes;
      if (kept > p_.memory_bytes) return false;
    }
    return true;
  }

  // Moves one action of a block towards another position in the block, until it meets an action that it may not pass.
  // Returns the seconds of the changed table; `never_ends`, with the table unchanged, if no such change is possible.
  double try_move() {
    const block& b = blocks_[random(blocks_.size())];
    auto& order = now_.orders[b.rank];
    const size_t length = b.last - b.first + 1;
    moved_rank_ = b.rank;
    from_ = b.first + random(length);
    const uint64_t how = random(4);  // target: an end of the block, any position in it, or a neighbour's
    const size_t wanted = how == 0         ? b.first
                          : how == 1       ? b.last
                          : how == 2       ? b.first + random(length)
                          : random(2) == 0 ? (from_ > b.first ? from_ - 1 : from_)
                                           : std::min(from_ + 1, b.last);
    to_ = from_;
    while (to_ > wanted && may_pass(order[to_ - 1], order[from_])) --to_;
    while (to_ < wanted && may_pass(order[to_ + 1], order[from_])) ++to_;
    if (to_ == from_) return never_ends;
    shift(from_, to_);
    const double s = fits(order) ? player_.play(now_) : never_ends;
    if (s == never_ends) undo();
    return s;
  }
  void undo() { shift(to_, from_); }
  void shift(size_t from, size_t to) {
    const auto at = [&](size_t i) { return now_.orders[moved_rank_].begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to)
      std::rotate(at(from), at(from + 1), at(to + 1));
    else
      std::rotate(at(to), at(from), at(from + 1));
  }

  const pipeline_problem& p_;
  improve_effort effort_;
  fast_player player_;
  pipeline_table now_;
  std::vector<block> blocks_;
  uint64_t actions_ = 0, drawn_ = 0;
  uint32_t moved_rank_ = 0;
  size_t from_ = 0, to_ = 0;
};

}  // namespace

pipeline_table improve(const pipeline_problem& p, pipeline_table t, const improve_effort& effort) {
  return climber(p, std::move(t), effort).run();
}

}  // namespace troupe::plan
