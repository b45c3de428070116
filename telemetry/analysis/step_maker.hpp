// Assembles a traced_step: numbers lanes, kinds, names and collectives as they occur. Shared by the readers of formats.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/analysis/traced_step.hpp"

namespace troupe::telemetry {

class step_maker {
 public:
  explicit step_maker(uint64_t number) { step_.number = number; }

  /// Returns the index of a rank by its number. Indices are in the order of first use until finished() sorts them.
  uint32_t rank(uint32_t number) { return index_of(ranks_, step_.ranks, number); }
  uint32_t kind(const std::string& name) { return index_of(kinds_, step_.kinds, name); }
  uint32_t name(const std::string& name) { return index_of(names_, step_.names, name); }
  uint32_t lane(uint32_t rank, const std::string& name, bool starts_ahead) {
    const auto [at, is_new] = lanes_.try_emplace({rank, name}, static_cast<uint32_t>(step_.lanes.size()));
    if (is_new) step_.lanes.push_back({name, rank, starts_ahead});
    return at->second;
  }
  /// Returns the number of the collective with this key, equal for all its members.
  uint32_t collective(const std::string& key) {
    const auto [at, is_new] = collectives_.try_emplace(key, step_.collectives);
    if (is_new) ++step_.collectives;
    return at->second;
  }
  uint32_t add(traced_span x) {
    step_.spans.push_back(std::move(x));
    return static_cast<uint32_t>(step_.spans.size() - 1);
  }
  [[nodiscard]] traced_step& step() { return step_; }

  /// Returns the step, with ranks in ascending order.
  [[nodiscard]] traced_step finished() {
    const auto before = step_.ranks;
    std::vector<uint32_t> index(before.size());
    step_.ranks.clear();
    for (const auto& [number, was] : ranks_) {
      index[was] = static_cast<uint32_t>(step_.ranks.size());
      step_.ranks.push_back(number);
    }
    for (auto& x : step_.spans) x.rank = index[x.rank];
    for (auto& x : step_.lanes) x.rank = index[x.rank];
    return std::move(step_);
  }

 private:
  template <class Key>
  static uint32_t index_of(std::map<Key, uint32_t>& index, std::vector<Key>& list, const Key& x) {
    const auto [at, is_new] = index.try_emplace(x, static_cast<uint32_t>(list.size()));
    if (is_new) list.push_back(x);
    return at->second;
  }

  traced_step step_;
  std::map<uint32_t, uint32_t> ranks_;
  std::map<std::string, uint32_t> kinds_, names_, collectives_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> lanes_;
};

}  // namespace troupe::telemetry
