// Stores the functions that compute the rows of a segment's output if it is computed in pieces of rows: the product
// that ends the segment, and additions to its rows. Owns their order; leaves the computation and its memory to the
// functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace troupe::models {

/// A function of a range of rows that computes each row by itself. Records no history.
using row_function = std::function<void(int64_t first, int64_t count)>;

class row_work {
 public:
  /// Computes the first `count` of `rows` rows, and keeps `f` for `run` to compute the others.
  void add(int64_t rows, int64_t count, row_function f) {
    f(0, std::min(rows, count));
    later_.push_back({rows, std::move(f)});
  }
  /// Calls all stored functions in order for rows [first, first + count).
  void run(int64_t first, int64_t count) const {
    for (const entry& e : later_)
      if (const int64_t end = std::min(e.rows, first + count); first < end) e.f(first, end - first);
  }
  /// Frees the stored functions, because no more rows will be requested.
  void end() { later_.clear(); }

 private:
  struct entry {
    int64_t rows = 0;
    row_function f;
  };
  std::vector<entry> later_;
};

}  // namespace troupe::models
