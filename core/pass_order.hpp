// Computes the order in which passes run (functions that change a step plan, or a host's units), from the contracts
// that they declare. A pass has a `name` and a `promise` with `conflicts`; the caller decides which of two passes has
// to follow the other.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::core {

/// Fails if two passes have the same name, or if one pass lists another among its conflicts.
template <class Pass>
result<void> go_together(const std::vector<const Pass*>& passes) {
  for (const Pass* x : passes)
    for (const Pass* y : passes) {
      if (x != y && x->name == y->name) return fail(error_kind::bad_input, "two passes are named " + x->name);
      if (std::ranges::find(x->promise.conflicts, y->name) != x->promise.conflicts.end())
        return fail(error_kind::bad_input, "passes " + x->name + " and " + y->name + " conflict");
    }
  return {};
}

/// Returns the passes in an order in which each one follows every pass `other` for which `behind(*pass, *other)` is
/// true; if several passes may be next, the first of them in `waiting` is. Fails if passes depend on one another in a
/// cycle.
template <class Pass, class Behind>
result<std::vector<const Pass*>> one_behind_another(std::vector<const Pass*> waiting, Behind behind) {
  std::vector<const Pass*> out;
  while (!waiting.empty()) {
    const auto ready = std::ranges::find_if(waiting, [&](const Pass* x) {
      return std::ranges::none_of(waiting, [&](const Pass* y) { return y != x && behind(*x, *y); });
    });
    if (ready == waiting.end()) {
      std::string names;
      for (const Pass* x : waiting) names.append(names.empty() ? "" : ", ").append(x->name);
      return fail(error_kind::bad_input, "passes wait for each other: " + names);
    }
    out.push_back(*ready);
    waiting.erase(ready);
  }
  return out;
}

}  // namespace troupe::core
