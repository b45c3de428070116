// Owns the windows for reads of a rank's own slices from the swap file, and how far ahead the reads run. Reads are in
// the order of the gathers that need them.
#include "plan/passes/passes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::plan {
namespace {

class shard_reads {
 public:
  shard_reads(draft& d, const rank_plan& p) : d_(d), p_(p) {
    for (handle x = d.begin; x != none; x = d.next(x))
      if (!d.is_mark(x) && d.at(x).kind == kind::gather) gathers_.push_back(x);
    reads_.assign(gathers_.size(), none);
  }

  std::string run() {
    read_ahead(d_.begin);
    for (size_t k = 0; k < gathers_.size(); ++k) {
      feed(k);
      read_ahead(gathers_[k]);
    }
    return fmt::format("slices are read before they are gathered, units ahead: {}", slots());
  }

 private:
  [[nodiscard]] uint32_t slots() const { return std::max(1U, p_.options().tiers.parameter_slots); }
  void read_ahead(handle behind) {
    for (; read_ < gathers_.size() && in_flight_ < slots(); ++read_) {
      const uint32_t set = d_.at(gathers_[read_]).subject;
      if (!p_.layout->reads_shards(set)) continue;
      const uint64_t bytes =
          window_elements(shard_runs(p_, set)) * core::size_of(type_of(*p_.layout, weights_part(*p_.layout)));
      if (bytes == 0) continue;
      const handle x = behind = d_.insert_after(behind, kind::swap_in, set, d_.at(gathers_[read_]).micro);
      d_.at(x).what = swapped::shards;
      d_.at(x).use = d_.at(gathers_[read_]).use;
      d_.at(x).moved_bytes = bytes;
      d_.at(x).slots.window = d_.open(x, pool::shards, bytes, set);
      reads_[read_] = x;
      ++in_flight_;
    }
  }
  void feed(size_t k) {
    if (reads_[k] == none) return;
    const handle gather = gathers_[k];
    d_.depend(gather, reads_[k]);
    d_.at(gather).slots.window = d_.at(reads_[k]).slots.window;
    d_.close(d_.at(gather).slots.window, gather);
    --in_flight_;
  }

  draft& d_;
  const rank_plan& p_;
  std::vector<handle> gathers_, reads_;  // gathers, and the reads of their slices from files, in order
  size_t read_ = 0;
  uint32_t in_flight_ = 0;
};

}  // namespace

std::string read_shards(draft& d, const rank_plan& p) {
  return p.options().tiers.parameters == tier::nvme ? shard_reads(d, p).run() : "";
}

}  // namespace troupe::plan
