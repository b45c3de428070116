// Owns the packing of parameters into sets that move together, and the limit of a set. Leaves the choice of sets to
// sets.hpp and buckets.hpp.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/job_layout.hpp"
#include "plan/layout/layout.hpp"

namespace troupe::plan {

/// Appends a set of the parameters `members`, which the ranks of pipeline coordinate `pipeline` hold, to `to`.
inline void add_set(const job_layout& l, std::vector<parameter_set>& to, const std::vector<uint32_t>& members,
                    std::string name, uint32_t pipeline) {
  to.push_back(lay_out(*l.table, members, std::move(name)));
  to.back().pipeline = pipeline;
}

/// Packs neighbouring parameters into sets of at most `elements_max` elements; a larger parameter is a set of its own.
/// All parameters of a set are held by the same ranks.
class set_packer {
 public:
  /// `set_of`: [parameter], receives the number of its set; null: the numbers are not stored.
  set_packer(job_layout& l, std::vector<parameter_set>& to, std::string name, uint64_t elements_max,
             std::vector<uint32_t>* set_of = nullptr)
      : l_(l), to_(to), name_(std::move(name)), elements_max_(elements_max), set_of_(set_of) {}
  void add(uint32_t q) {
    const uint64_t n = l_.table->parameters[q].numel();
    if (elements_ + n > elements_max_ || (!open_.empty() && l_.pipeline_of[open_.back()] != l_.pipeline_of[q])) close();
    open_.push_back(q);
    elements_ += n;
  }
  void close() {
    for (const uint32_t q : open_)
      if (set_of_ != nullptr) (*set_of_)[q] = static_cast<uint32_t>(to_.size());
    if (!open_.empty()) add_set(l_, to_, open_, fmt::format("{} {}", name_, to_.size()), l_.pipeline_of[open_.front()]);
    open_.clear();
    elements_ = 0;
  }
  [[nodiscard]] uint64_t elements() const { return elements_; }

 private:
  job_layout& l_;
  std::vector<parameter_set>& to_;
  std::string name_;
  uint64_t elements_max_, elements_ = 0;
  std::vector<uint32_t>* set_of_;
  std::vector<uint32_t> open_;
};

}  // namespace troupe::plan
