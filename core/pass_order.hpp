// The order of passes that follows from their contracts, whatever they pass over. A pass has a `name` and a `promise`
// with `conflicts`; which of two has to wait for the other is its caller's to say.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::core {

/// Refuses two passes of one name, and two of which one says that they conflict.
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

/// Each pass behind all of which `behind(*pass, *other)` holds; of several that could be next the first one given.
/// Fails where some wait for each other.
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
