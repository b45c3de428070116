#include "plan/passes/late_gathers.hpp"

#include <algorithm>
#include <vector>

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
    const double lead = hidden_.flops + hidden_.flops_per_byte * static_cast<double>(d_.at(x.what).bytes);
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

}  // namespace

uint32_t gather_late(draft& d, const rank_plan& p) { return late_gathers(d, p).run(); }

}  // namespace troupe::plan
