// What makes the rows of a segment's output where that comes in pieces of rows: the product that ends the segment, and
// what is added to its rows. Owns the order of these; what they compute, and in which memory, is the functions' own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace troupe::models {

/// A function of a range of rows, that computes each row by itself. Leaves no history.
using row_function = std::function<void(int64_t first, int64_t count)>;

class row_work {
 public:
  /// Does the first `count` of `rows` rows and keeps the others for `run`.
  void add(int64_t rows, int64_t count, row_function f) {
    f(0, std::min(rows, count));
    later_.push_back({rows, std::move(f)});
  }
  /// All functions in order, for those of these rows that there are.
  void run(int64_t first, int64_t count) const {
    for (const entry& e : later_)
      if (const int64_t end = std::min(e.rows, first + count); first < end) e.f(first, end - first);
  }
  /// No more rows will be asked for.
  void end() { later_.clear(); }

 private:
  struct entry {
    int64_t rows = 0;
    row_function f;
  };
  std::vector<entry> later_;
};

}  // namespace troupe::models
