#include "plan/passes/prefetch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::plan {
namespace {

class late_gathers {
 public:
  late_gathers(draft& d, const rank_plan& p) : d_(d), hidden_(p.options().gathering.hidden) { read(p); }

  uint32_t run() {
    uint32_t moved = 0;
    size_t latest = computed_.size();  // position of the gather after the current one, which may not move past it
    for (size_t g = gathers_.size(); g-- > 0;) {
      const auto& x = gathers_[g];
      const size_t at = std::min({x.use, latest, std::max(x.from, begin_of(x))});
      latest = at;
      if (at == x.use) continue;
      // moves the gather to the position directly after the preceding computation
      d_.move_before(x.what, at == 0 ? computed_.front() : d_.next(computed_[at - 1]));
      d_.depend_on_nothing(x.what);
      if (at > 0) d_.depend(x.what, computed_[at - 1]);
      ++moved;
    }
    return moved;
  }

 private:
  struct gather {
    handle what = none;
    size_t use = 0;   // number of instructions that are computed before the gather's use
    size_t from = 0;  // smallest number of computed instructions that may precede the gather
  };

  void read(const rank_plan& p) {
    std::vector<size_t> released(p.table().units.size(), 0);
    uint32_t use = 0;
    for (handle x = d_.begin; x != none && use < d_.uses.size(); x = d_.next(x)) {
      if (x == d_.marks[use].ends) ++use;
      if (d_.is_mark(x)) continue;
      const auto& o = d_.at(x);
      if (o.kind == kind::gather && use < d_.uses.size() && o.subject == d_.uses[use].unit)
        gathers_.push_back({x, computed_.size(), released[o.subject]});
      if (lane_of(o.kind) != lane::compute) continue;
      computed_.push_back(x);
      flops_.push_back(flops_.back() + o.flops);
      if (o.kind == kind::release && o.subject < released.size()) released[o.subject] = computed_.size();
    }
  }

  [[nodiscard]] size_t begin_of(const gather& x) const {
    const double lead = hidden_.flops + hidden_.flops_per_byte * static_cast<double>(d_.at(x.what).moved_bytes);
    size_t at = x.use;
    while (at > 0 && flops_[x.use] - flops_[at] < lead) --at;
    return at;
  }

  draft& d_;
  const hidden_gathers& hidden_;
  std::vector<gather> gathers_;
  std::vector<handle> computed_;
  std::vector<double> flops_ = {0};  // [n]: flops of the first n computed instructions
};

/// Moves each use's gather only so far ahead that the computation between gather and use has the flops of
/// `gather_options::hidden`. A gather never moves before the release of the unit's previous gather, nor past another
/// use's gather. Only gathers that are still directly before their use are moved. Returns how many were moved.
/// Source: DeepCompile's list scheduler. The order of computation is fixed here, so only two of its rules remain:
/// gather late, and release directly after the use.
uint32_t gather_late(draft& d, const rank_plan& p) { return late_gathers(d, p).run(); }

// Goes through the uses of units once, and decides where each unit is gathered and released.
class residency_planner {
 public:
  residency_planner(const job_layout& l, const schedule& uses)
      : options_(l.options),
        sets_(l.gather_sets),
        uses_(uses),
        n_(static_cast<uint32_t>(uses.size())),
        live_(l.table->units.size(), none),
        wanted_until_(l.table->units.size(), 0) {
    out_.gathers_at.assign(n_, {});
    out_.gathered_for.assign(n_, none);
    out_.release_after.assign(n_, false);
  }

  residency run() && {
    for (uint32_t i = 0; i < n_; ++i) {
      if (numel(i) > 0) {
        fetch(i, i);
        out_.gathered_for[i] = live_[uses_[i].unit];
      }
      looked_at_ = std::max(looked_at_, i + 1);
      prefetch(i);
      release(i);
    }
    release_the_rest();
    return std::move(out_);
  }
  residency nothing() && { return std::move(out_); }

 private:
  [[nodiscard]] bool reads(uint32_t use) const { return reads_parameters(uses_[use].kind); }
  [[nodiscard]] uint64_t numel(uint32_t use) const { return reads(use) ? sets_[uses_[use].unit].numel : 0; }

  void fetch(uint32_t at, uint32_t use) {
    const uint32_t unit = uses_[use].unit;
    wanted_until_[unit] = std::max(wanted_until_[unit], use);
    if (live_[unit] != none) return;
    live_[unit] = use;
    live_elements_ += numel(use);
    out_.gathers_at[at].push_back(use);
  }
  void prefetch(uint32_t at) {
    const uint64_t room =
        options_.gathering.max_live > live_elements_ ? options_.gathering.max_live - live_elements_ : 0;
    const bool by_size = options_.overlap && !options_.gathering.hidden.on();
    const uint64_t budget = std::min(room, by_size ? options_.gathering.prefetch_bucket : 0);
    for (uint64_t taken = 0; taken < budget && looked_at_ < n_; ++looked_at_) {
      if (numel(looked_at_) == 0) continue;
      if (live_[uses_[looked_at_].unit] == none) taken += numel(looked_at_);
      fetch(at, looked_at_);
    }
  }
  [[nodiscard]] bool reused_soon(uint32_t at) const {
    uint64_t distance = 0;
    for (uint32_t k = at + 1; k < n_; ++k) {
      if (distance >= options_.gathering.max_reuse_distance) return false;
      if (uses_[k].unit == uses_[at].unit && reads(k)) return true;
      distance += numel(k);
    }
    return false;
  }
  // True if use `at` has only some segments of its unit, and further segments of the unit follow in one of the next two
  // uses, alternating with the segments of another unit.
  [[nodiscard]] bool goes_on(uint32_t at) const {
    const unit_use& u = uses_[at];
    for (uint32_t k = at + 1; u.end != none && k < std::min(n_, at + 3); ++k)
      if (uses_[k].unit == u.unit && uses_[k].micro == u.micro && reads(k) && way_of(uses_[k].kind) == way_of(u.kind))
        return true;
    return false;
  }
  void release(uint32_t at) {
    const uint32_t unit = uses_[at].unit;
    if (!reads(at) || live_[unit] == none || wanted_until_[unit] > at || goes_on(at) || reused_soon(at)) return;
    live_[unit] = none;
    live_elements_ -= numel(at);
    out_.release_after[at] = true;
  }
  // Releases each unit that is still resident after its last use in the step: its gathered parameters would be outdated
  // after the update.
  void release_the_rest() {
    for (uint32_t unit = 0; unit < live_.size(); ++unit) {
      if (live_[unit] == none) continue;
      for (uint32_t i = n_; i-- > 0;)
        if (uses_[i].unit == unit && reads(i)) {
          out_.release_after[i] = true;
          break;
        }
    }
  }

  const plan_options& options_;
  const std::vector<parameter_set>& sets_;
  const schedule& uses_;
  const uint32_t n_;
  residency out_;
  std::vector<uint32_t> live_;          // [unit]: use whose gather made the unit resident
  std::vector<uint32_t> wanted_until_;  // [unit]: latest use that a fetch or prefetch has looked at
  uint64_t live_elements_ = 0;
  uint32_t looked_at_ = 0;  // uses below this index are fetched or found resident
};

}  // namespace

residency plan_residency(const job_layout& l, const schedule& uses) {
  residency_planner planner(l, uses);
  return l.gathers() ? std::move(planner).run() : std::move(planner).nothing();
}

namespace {

class resident_units {
 public:
  resident_units(draft& d, const rank_plan& p)
      : d_(d), plan_(plan_residency(*p.layout, d.uses)), gather_(d.uses.size(), none), release_(d.uses.size(), none) {}

  std::string run() {
    find();
    for (uint32_t i = 0; i < d_.uses.size(); ++i) {
      for (const uint32_t use : plan_.gathers_at[i]) issue(use, i);
      if (gather_[i] != none && plan_.gathered_for[i] != i) join(i);
      compute(i);
    }
    if (ahead_ + joined_ == 0) return {};
    return fmt::format("gathers ahead of their use: {}, uses that find their unit resident: {}", ahead_, joined_);
  }

 private:
  // Finds the gather and the release of each use; uses of persistent parameters have neither.
  void find() {
    uint32_t i = 0;
    for (handle x = d_.begin; x != none && i < d_.uses.size(); x = d_.next(x)) {
      if (x == d_.marks[i].ends) ++i;
      if (d_.is_mark(x) || d_.at(x).subject != d_.uses[i].unit) continue;
      if (d_.at(x).kind == kind::gather) gather_[i] = x;
      if (d_.at(x).kind == kind::release) release_[i] = x;
    }
  }
  // Moves the gather of `use` to the beginning of use `at`, an earlier one, where it waits for the computation before
  // that use.
  void issue(uint32_t use, uint32_t at) {
    if (use == at) return;  // the gather is already at the beginning of use `at`
    d_.move_before(gather_[use], d_.marks[at].computes);
    d_.depend_on_nothing(gather_[use]);
    d_.depend(gather_[use], last_compute_);
    ++ahead_;
  }
  void join(uint32_t use) {
    const handle source = gather_[plan_.gathered_for[use]];
    d_.replace(d_.at(gather_[use]).slots.parameters, d_.at(source).slots.parameters);
    d_.remove(gather_[use], source);
    ++joined_;
  }
  void compute(uint32_t i) {
    for (handle x = d_.marks[i].computes; x != d_.marks[i].ends; x = d_.next(x))
      if (x != release_[i] && !d_.is_mark(x) && lane_of(d_.at(x).kind) == lane::compute) last_compute_ = x;
    if (release_[i] == none) return;
    if (!plan_.release_after[i]) return d_.remove(release_[i], last_compute_);
    d_.close(d_.standing_buffer(d_.at(release_[i]).slots.parameters), release_[i]);
    last_compute_ = release_[i];
  }

  draft& d_;
  residency plan_;
  std::vector<handle> gather_, release_;  // [use]: gather and release of the use
  handle last_compute_ = none;
  uint32_t ahead_ = 0, joined_ = 0;
};

}  // namespace

std::string keep_resident(draft& d, const rank_plan& p) {
  if (!p.layout->gathers()) return {};
  std::string out = resident_units(d, p).run();
  if (!p.options().overlap || !p.options().gathering.hidden.on()) return out;
  const uint32_t late = gather_late(d, p);
  return fmt::format("{}{}gathers as late as computation hides them: {}", out, out.empty() ? "" : ", ", late);
}

}  // namespace troupe::plan
