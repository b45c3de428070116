// Stores the functions that compute the remaining rows of a segment's output, if the output is computed and exchanged
// in pieces of rows: the product that ends the segment, and additions to its rows. Owns their order; the functions own
// the computation and its memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace troupe::models {

/// A function that computes rows [first, first + count) of an output, each row by itself, without autograd history.
using row_function = std::function<void(int64_t first, int64_t count)>;

class row_work {
 public:
  /// Calls `f` for the first `count` of `rows` rows, and stores `f` so that `run` can compute the other rows later.
  void add(int64_t rows, int64_t count, row_function f) {
    f(0, std::min(rows, count));
    later_.push_back({rows, std::move(f)});
  }
  /// Calls all stored functions in order for rows [first, first + count).
  void run(int64_t first, int64_t count) const {
    for (const entry& e : later_)
      if (const int64_t end = std::min(e.rows, first + count); first < end) e.f(first, end - first);
  }
  /// Frees the stored functions and the tensors that they refer to; no more rows may be requested.
  void end() { later_.clear(); }

 private:
  struct entry {
    int64_t rows = 0;
    row_function f;
  };
  std::vector<entry> later_;
};

}  // namespace troupe::models
