#include "plan/layout/buckets.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/tied_copies.hpp"
#include "plan/layout/set_packer.hpp"
#include "plan/layout/ties.hpp"
#include "plan/stages.hpp"

namespace troupe::plan {
namespace {

// Packs parameters into buckets of two kinds: gradients that are added over data ranks, and gradients that are added
// over data ranks of all tensor coordinates. Parameters of both kinds alternate in the model, so one bucket of each
// kind is open at a time.
class bucket_packer {
 public:
  explicit bucket_packer(job_layout& l)
      : l_(l),
        packers_{{l, l.buckets, "bucket", l.options.gradients.reduce_bucket, &l.bucket_of},
                 {l, l.buckets, "bucket", l.options.gradients.reduce_bucket, &l.bucket_of}} {}
  void add(uint32_t q) { of(q).add(q); }
  void add_alone(uint32_t q) {
    of(q).close();
    of(q).add(q);
    of(q).close();
  }
  /// Closes all open buckets that have at least `elements` elements.
  void close(uint64_t elements = 0) {
    for (auto& packer : packers_)
      if (packer.elements() >= elements) packer.close();
  }

 private:
  [[nodiscard]] set_packer& of(uint32_t q) { return packers_[l_.is_summed(q) ? 1 : 0]; }
  job_layout& l_;
  set_packer packers_[2];
};

}  // namespace

// Makes buckets in the order in which backward completes them. A parameter whose gradient several segments write gets
// a bucket of its own, which stays open until the last of them has run. Each use of a tied parameter gets a bucket of
// its own, too, because its reduced gradient is then added to the reduced gradients of the other uses. No bucket
// spans two pipeline stages, since two stages on one rank may run their weight parts in any order.
void make_buckets(job_layout& l) {
  const auto writes = contributions(*l.table);
  l.bucket_of.assign(l.table->parameters.size(), none);
  bucket_packer packer(l);
  for (auto u = static_cast<int64_t>(l.table->units.size()) - 1; u >= 0; --u) {
    // The first unit's gradients are complete last, and no computation is left that could overlap with their reduction:
    // every open bucket is closed before, so that no other gradients wait for them.
    if (l.options.gradients.buckets_follow_units) packer.close(u == 0 ? 0 : unit_bucket_min / 2);
    const auto unit = static_cast<uint32_t>(u);
    if (unit + 1 < l.table->units.size() && begins_stage(l, unit + 1)) packer.close();
    const auto& segments = l.table->units[static_cast<size_t>(u)].segments;
    for (auto s = static_cast<int64_t>(segments.size()) - 1; s >= 0; --s)
      for (uint32_t q : segments[static_cast<size_t>(s)].parameters) {
        if (writes[q].empty() || l.tie_of[q] != none) continue;
        const auto& last = writes[q].back();
        if (last.unit != u || last.segment != s) continue;
        writes[q].size() > 1 ? packer.add_alone(q) : packer.add(q);
      }
  }
  packer.close();
  for (const auto& uses : l.ties)
    for (size_t k = uses.parameters.size(); k-- > 0;)
      if (const uint32_t q = uses.parameters[k]; !writes[q].empty()) packer.add_alone(q);
  for (auto& bucket : l.buckets) bucket.over_tensor = l.is_summed(bucket.parameters.front().parameter);
}

std::vector<std::vector<contribution>> contributions(const core::model_table& table) {
  std::vector<std::vector<contribution>> out(table.parameters.size());
  for (auto u = static_cast<int64_t>(table.units.size()) - 1; u >= 0; --u) {
    const auto& segments = table.units[static_cast<size_t>(u)].segments;
    for (auto s = static_cast<int64_t>(segments.size()) - 1; s >= 0; --s)
      for (uint32_t q : segments[static_cast<size_t>(s)].parameters)
        if (table.parameters[q].trainable) out[q].push_back({static_cast<uint32_t>(u), static_cast<uint32_t>(s)});
  }
  return out;
}

namespace {

// Returns the contributions to parameters that are not tied. A parameter with one contribution may share its bucket
// with others.
std::vector<std::vector<contribution>> sole_contributions(const core::model_table& table) {
  auto out = contributions(table);
  for (const auto& uses : core::uses_of_tied(table))
    for (const uint32_t q : uses) out[q].clear();
  return out;
}

}  // namespace

uint64_t unit_bucket(const core::model_table& table) {
  const auto writes = sole_contributions(table);
  std::vector<uint64_t> elements(table.units.size(), 0);
  for (size_t q = 0; q < writes.size(); ++q)
    if (writes[q].size() == 1) elements[writes[q].front().unit] += table.parameters[q].numel();
  return std::max(unit_bucket_min, *std::ranges::max_element(elements));
}

uint64_t segment_bucket(const core::model_table& table) {
  const auto writes = sole_contributions(table);
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> elements;
  for (size_t q = 0; q < writes.size(); ++q)
    if (writes[q].size() == 1)
      elements[{writes[q].front().unit, writes[q].front().segment}] += table.parameters[q].numel();
  uint64_t most = unit_bucket_min;
  for (const auto& [segment, n] : elements) most = std::max(most, n);
  return most;
}

}  // namespace troupe::plan
