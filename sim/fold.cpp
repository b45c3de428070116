#include "sim/fold.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe::sim {
namespace {

using numbers = std::vector<uint32_t>;

/// Numbers different lists from 0 on, in the order in which they are seen first.
class numbering {
 public:
  uint32_t of(numbers list) { return known_.try_emplace(std::move(list), size()).first->second; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(known_.size()); }

 private:
  std::map<numbers, uint32_t> known_;
};

/// Divides classes until the members of a class meet equal classes everywhere.
class refinement {
 public:
  refinement(const numbers& colours, const std::vector<plan::communicator>& communicators, const numbers& kinds)
      : communicators_(communicators), kinds_(kinds), met_(colours.size()) {
    for (uint32_t c = 0; c < communicators.size(); ++c)
      for (const uint32_t r : communicators[c].members) met_[r].push_back(c);
    numbering classes;
    for (const uint32_t colour : colours) class_of_.push_back(classes.of({colour}));
    num_classes_ = classes.size();
  }

  numbers run() {
    for (refine(); divide_torn_class(); refine()) {
    }
    return first_of_class();
  }

 private:
  // Returns the classes of the communicator's members with the number of members of each, ascending.
  [[nodiscard]] numbers seen_in(uint32_t c) const {
    numbers classes, out{kinds_[c]};
    for (const uint32_t r : communicators_[c].members) classes.push_back(class_of_[r]);
    std::ranges::sort(classes);
    for (size_t i = 0, end = 0; i < classes.size(); i = end) {
      while (end < classes.size() && classes[end] == classes[i]) ++end;
      out.push_back(classes[i]);
      out.push_back(static_cast<uint32_t>(end - i));
    }
    return out;
  }

  void refine() {
    for (uint32_t before = 0; before != num_classes_;) {
      before = num_classes_;
      numbering looks, classes;
      numbers look_of;  // [communicator]
      for (uint32_t c = 0; c < communicators_.size(); ++c) look_of.push_back(looks.of(seen_in(c)));
      for (size_t r = 0; r < class_of_.size(); ++r) {
        numbers facts{class_of_[r]};
        for (const uint32_t c : met_[r]) facts.push_back(look_of[c]);
        class_of_[r] = classes.of(std::move(facts));
      }
      num_classes_ = classes.size();
    }
  }

  // Returns for each rank the first rank of its class.
  [[nodiscard]] numbers first_of_class() const {
    numbers first(num_classes_, static_cast<uint32_t>(class_of_.size())), out;
    for (uint32_t r = 0; r < class_of_.size(); ++r) first[class_of_[r]] = std::min(first[class_of_[r]], r);
    for (const uint32_t k : class_of_) out.push_back(first[k]);
    return out;
  }

  // Divides a class that has members in a communicator of a rank that acts, but not the one that acts for them: those
  // members become a class of their own. Returns false if there is none.
  bool divide_torn_class() {
    const numbers acted_by = first_of_class();
    for (const auto& c : communicators_) {
      if (std::ranges::none_of(c.members, [&](uint32_t r) { return acted_by[r] == r; })) continue;
      const auto torn = std::ranges::find_if(
          c.members, [&](uint32_t r) { return !std::ranges::binary_search(c.members, acted_by[r]); });
      if (torn == c.members.end()) continue;
      const uint32_t divided = class_of_[*torn];
      for (const uint32_t r : c.members)
        if (class_of_[r] == divided) class_of_[r] = num_classes_;
      ++num_classes_;
      return true;
    }
    return false;
  }

  const std::vector<plan::communicator>& communicators_;
  const numbers& kinds_;
  std::vector<numbers> met_;  // [rank]: its communicators, ascending
  numbers class_of_;          // [rank]
  uint32_t num_classes_ = 0;
};

}  // namespace

std::vector<uint32_t> fold_ranks(const std::vector<uint32_t>& colours,
                                 const std::vector<plan::communicator>& communicators,
                                 const std::vector<uint32_t>& colours_of_communicators) {
  return refinement(colours, communicators, colours_of_communicators).run();
}

uint32_t num_acting(const std::vector<uint32_t>& acted_by) {
  uint32_t out = 0;
  for (uint32_t r = 0; r < acted_by.size(); ++r) out += acted_by[r] == r ? 1 : 0;
  return out;
}

}  // namespace troupe::sim
