#include "kernels/optimizer/checked_halves.hpp"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "core/math.hpp"
#include "kernels/optimizer/options_check.hpp"
#include "kernels/optimizer/orthogonalise.hpp"
#include "kernels/optimizer/piece_check.hpp"

namespace troupe::kernels {
namespace {

constexpr std::string_view lamb_first = "the first half of LAMB's update",
                           lamb_second = "the second half of LAMB's update",
                           muon_first = "the first half of Muon's update",
                           muon_second = "the second half of Muon's update",
                           newton_schulz_call = "a matrix made orthogonal";

template <class State>
core::result<void> checked_prepare(const lamb_options& options, const optimizer_step& step,
                                   const optimizer_piece<State>& piece, std::span<double> weight_sums,
                                   std::span<double> update_sums) {
  TROUPE_TRY(check_options(lamb_first, options));
  const uint64_t blocks = core::div_up(piece.count, core::partition_grain);
  if (weight_sums.size() != blocks || update_sums.size() != blocks)
    return core::refused(fmt::format("{}: wanted {} sums of weights and of updates, got {} and {}", lamb_first, blocks,
                                     weight_sums.size(), update_sums.size()));
  const views_of_piece has{.writes_masters = false, .moments = 2, .copy = false};
  TROUPE_TRY(check_piece(lamb_first, step, piece, has,
                         {view_of("sums of weights", weight_sums), view_of("sums of updates", update_sums)}));
  prepare_unchecked(options, step, piece, weight_sums, update_sums);
  return {};
}

template <class State>
core::result<void> checked_apply(const lamb_options& options, const optimizer_step& step,
                                 const optimizer_piece<State>& piece, double ratio) {
  TROUPE_TRY(check_options(lamb_second, options));
  TROUPE_TRY(check_finite(lamb_second, {{"trust ratio", ratio}}));
  const views_of_piece has{.gradient = false, .moments = 2, .writes_moments = false};
  TROUPE_TRY(check_piece(lamb_second, step, piece, has));
  apply_unchecked(options, step, piece, ratio);
  return {};
}

template <class State>
core::result<void> checked_prepare(const muon_options& options, const optimizer_step& step,
                                   const optimizer_piece<State>& piece, State* direction) {
  TROUPE_TRY(check_options(muon_first, options));
  const views_of_piece has{.masters = false, .moments = 1, .copy = false};
  TROUPE_TRY(check_piece(muon_first, step, piece, has,
                         {view_of("a place for directions", std::span(direction, piece.count))}));
  prepare_unchecked(options, step, piece, direction);
  return {};
}

template <class State>
core::result<void> checked_apply(const muon_options& options, const optimizer_step& step,
                                 const optimizer_piece<State>& piece, const State* orthogonal) {
  TROUPE_TRY(check_options(muon_second, options));
  const views_of_piece has{.gradient = false};
  TROUPE_TRY(check_piece(muon_second, step, piece, has,
                         {view_of("an orthogonal matrix", std::span(orthogonal, piece.count))}));
  apply_unchecked(options, step, piece, orthogonal);
  return {};
}

template <class T>
core::result<void> checked_orthogonalise(std::span<T> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                                         std::span<T> scratch) {
  const auto wanted = [](const std::string& what) {
    return core::refused(std::string(newton_schulz_call) + ": wanted " + what);
  };
  const bool is_whole = cols == 0 ? matrix.empty() : matrix.size() % cols == 0 && matrix.size() / cols == rows;
  if (!is_whole) return wanted(fmt::format("{} x {} elements, got {}", rows, cols, matrix.size()));
  if (scratch.size() < orthogonalise_scratch(rows, cols))
    return wanted(fmt::format("scratch of {} elements, got {}", orthogonalise_scratch(rows, cols), scratch.size()));
  const memory_view all[] = {view_of("the matrix", matrix), view_of("scratch", scratch)};
  TROUPE_TRY(check_apart(newton_schulz_call, all));
  orthogonalise_unchecked(matrix, rows, cols, steps, scratch);
  return {};
}

}  // namespace

core::result<void> prepare(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           std::span<double> weight_sums, std::span<double> update_sums) {
  return checked_prepare(options, step, piece, weight_sums, update_sums);
}
core::result<void> prepare(const lamb_options& options, const optimizer_step& step,
                           const optimizer_piece<double>& piece, std::span<double> weight_sums,
                           std::span<double> update_sums) {
  return checked_prepare(options, step, piece, weight_sums, update_sums);
}
core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         double ratio) {
  return checked_apply(options, step, piece, ratio);
}
core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                         double ratio) {
  return checked_apply(options, step, piece, ratio);
}

core::result<void> prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           float* direction) {
  return checked_prepare(options, step, piece, direction);
}
core::result<void> prepare(const muon_options& options, const optimizer_step& step,
                           const optimizer_piece<double>& piece, double* direction) {
  return checked_prepare(options, step, piece, direction);
}
core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         const float* orthogonal) {
  return checked_apply(options, step, piece, orthogonal);
}
core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                         const double* orthogonal) {
  return checked_apply(options, step, piece, orthogonal);
}

core::result<void> orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                                 std::span<float> scratch) {
  return checked_orthogonalise(matrix, rows, cols, steps, scratch);
}
core::result<void> orthogonalise(std::span<double> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                                 std::span<double> scratch) {
  return checked_orthogonalise(matrix, rows, cols, steps, scratch);
}

}  // namespace troupe::kernels
