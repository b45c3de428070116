#include "plan/passes/residency.hpp"

#include <algorithm>

namespace troupe::plan {

residency plan_residency(const job_layout& l, const schedule& uses) {
  residency out;
  const auto n = static_cast<uint32_t>(uses.size());
  out.gathers_at.assign(n, {});
  out.gathered_for.assign(n, none);
  out.release_after.assign(n, false);
  if (!l.gathers()) return out;

  const auto numel = [&](uint32_t use) { return l.gather_sets[uses[use].unit].numel; };
  std::vector<uint32_t> live(l.table->units.size(), none);       // [unit]: the use whose gather made it resident
  std::vector<uint32_t> wanted_until(l.table->units.size(), 0);  // [unit]: latest use a fetch or prefetch looked at
  uint64_t live_elements = 0;
  uint32_t looked_at = 0;  // uses below are fetched or found resident

  const auto fetch = [&](uint32_t at, uint32_t use) {
    const uint32_t unit = uses[use].unit;
    wanted_until[unit] = std::max(wanted_until[unit], use);
    if (live[unit] != none) return;
    live[unit] = use;
    live_elements += numel(use);
    out.gathers_at[at].push_back(use);
  };
  const auto reused_soon = [&](uint32_t at) {
    uint64_t distance = 0;
    for (uint32_t k = at + 1; k < n; ++k) {
      if (distance >= l.options.max_reuse_distance) return false;
      if (uses[k].unit == uses[at].unit) return true;
      distance += numel(k);
    }
    return false;
  };

  const uint64_t prefetch = l.options.overlap ? l.options.prefetch_bucket : 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t unit = uses[i].unit;
    if (numel(i) > 0) {
      fetch(i, i);
      out.gathered_for[i] = live[unit];
    }
    looked_at = std::max(looked_at, i + 1);
    const uint64_t room = l.options.max_live > live_elements ? l.options.max_live - live_elements : 0;
    const uint64_t budget = std::min(room, prefetch);
    for (uint64_t taken = 0; taken < budget && looked_at < n; ++looked_at) {
      if (numel(looked_at) == 0) continue;
      if (live[uses[looked_at].unit] == none) taken += numel(looked_at);
      fetch(i, looked_at);
    }
    if (live[unit] == none || wanted_until[unit] > i || reused_soon(i)) continue;
    live[unit] = none;
    live_elements -= numel(i);
    out.release_after[i] = true;
  }
  // What reuse would have kept beyond the step is stale after the update: release it at its last use.
  for (uint32_t unit = 0; unit < live.size(); ++unit) {
    if (live[unit] == none) continue;
    for (uint32_t i = n; i-- > 0;)
      if (uses[i].unit == unit) {
        out.release_after[i] = true;
        break;
      }
  }
  return out;
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
    return "gathers ahead of their use: " + std::to_string(ahead_) +
           ", uses that find their unit resident: " + std::to_string(joined_);
  }

 private:
  // The gather and the release of each use; what is persistent has neither.
  void find() {
    uint32_t i = 0;
    for (handle x = d_.begin; x != none && i < d_.uses.size(); x = d_.next(x)) {
      if (x == d_.marks[i].ends) ++i;
      if (d_.is_mark(x) || d_.at(x).subject != d_.uses[i].unit) continue;
      if (d_.at(x).kind == kind::gather) gather_[i] = x;
      if (d_.at(x).kind == kind::release) release_[i] = x;
    }
  }
  // The gather of `use` is issued as use `at` begins, behind the computation before it.
  void issue(uint32_t use, uint32_t at) {
    if (use == at) return;  // it stands there, and before all others
    d_.move_before(gather_[use], d_.marks[at].computes);
    d_.depend_on_nothing(gather_[use]);
    d_.depend(gather_[use], last_compute_);
    ++ahead_;
  }
  void join(uint32_t use) {
    const handle source = gather_[plan_.gathered_for[use]];
    d_.replace(d_.at(gather_[use]).buffer, d_.at(source).buffer);
    d_.remove(gather_[use], source);
    ++joined_;
  }
  void compute(uint32_t i) {
    for (handle x = d_.marks[i].computes; x != d_.marks[i].ends; x = d_.next(x))
      if (x != release_[i] && !d_.is_mark(x) && lane_of(d_.at(x).kind) == lane::compute) last_compute_ = x;
    if (release_[i] == none) return;
    if (!plan_.release_after[i]) return d_.remove(release_[i], last_compute_);
    d_.close(d_.standing_buffer(d_.at(release_[i]).buffer), release_[i]);
    last_compute_ = release_[i];
  }

  draft& d_;
  residency plan_;
  std::vector<handle> gather_, release_;  // [use]
  handle last_compute_ = none;
  uint32_t ahead_ = 0, joined_ = 0;
};

}  // namespace

std::string keep_resident(draft& d, const rank_plan& p) {
  return p.layout->gathers() ? resident_units(d, p).run() : "";
}

}  // namespace troupe::plan
