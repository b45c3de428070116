#include "formats/deepspeed/degrees.hpp"

#include <fmt/format.h>

namespace troupe::formats {
namespace {

using numbers = std::vector<uint32_t>;

core::result<file_lists> equal_runs(const numbers& all, uint32_t runs, const char* of) {
  if (all.size() % runs != 0)
    return fail(error_kind::bad_input,
                fmt::format("{} files cannot be divided over {} {} ranks", all.size(), runs, of));
  file_lists out(runs);
  for (size_t i = 0; i < all.size(); ++i) out[i / (all.size() / runs)].push_back(all[i]);
  return out;
}

core::result<void> check(const parallel_degrees& from, const parallel_degrees& to) {
  for (const auto& d : {from, to})
    if (d.pipeline == 0 || d.tensor == 0 || d.data == 0 || uint64_t{d.pipeline} * d.tensor > max_parallel_ranks ||
        d.ranks() > max_parallel_ranks)
      return fail(error_kind::limit, fmt::format("wanted 1 to {} ranks, got degrees {}, {} and {}", max_parallel_ranks,
                                                 d.pipeline, d.tensor, d.data));
  const auto grows = [](const char* what, uint32_t a, uint32_t b) -> core::result<void> {
    if (b <= a) return {};
    return fail(error_kind::bad_input, fmt::format("Expansion reshape not supported: {} degree {} to {}", what, a, b));
  };
  TROUPE_TRY(grows("pipeline", from.pipeline, to.pipeline));
  TROUPE_TRY(grows("tensor", from.tensor, to.tensor));
  return grows("data", from.data, to.data);
}

}  // namespace

core::result<file_lists> reshape_2d(const parallel_degrees& from, const parallel_degrees& to) {
  TROUPE_TRY(check({from.pipeline, from.tensor, 1}, {to.pipeline, to.tensor, 1}));
  file_lists columns(to.tensor);
  for (uint32_t stage = 0; stage < from.pipeline; ++stage) {
    numbers row;
    for (uint32_t t = 0; t < from.tensor; ++t) row.push_back(stage * from.tensor + t);
    const auto runs = equal_runs(row, to.tensor, "tensor-parallel");
    if (!runs) return runs;
    for (uint32_t t = 0; t < to.tensor; ++t) columns[t].insert(columns[t].end(), (*runs)[t].begin(), (*runs)[t].end());
  }
  file_lists out(size_t{to.pipeline} * to.tensor);
  for (uint32_t t = 0; t < to.tensor; ++t) {
    auto runs = equal_runs(columns[t], to.pipeline, "pipeline");
    if (!runs) return runs;
    for (uint32_t stage = 0; stage < to.pipeline; ++stage)
      out[size_t{stage} * to.tensor + t] = std::move((*runs)[stage]);
  }
  return out;
}

core::result<file_lists> reshape_3d(const parallel_degrees& from, const parallel_degrees& to) {
  TROUPE_TRY(check(from, to));
  const auto cells = reshape_2d(from, to);
  if (!cells) return cells;
  file_lists out(to.ranks());
  for (size_t cell = 0; cell < cells->size(); ++cell) {
    numbers copies;
    for (const uint32_t file : (*cells)[cell])
      for (uint32_t d = 0; d < from.data; ++d) copies.push_back(file + d * from.pipeline * from.tensor);
    auto runs = equal_runs(copies, to.data, "data-parallel");
    if (!runs) return runs;
    for (uint32_t d = 0; d < to.data; ++d) out[d * cells->size() + cell] = std::move((*runs)[d]);
  }
  return out;
}

}  // namespace troupe::formats
