#include "kernels/optimizer/late_update.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/optimizer/element_pass.hpp"

namespace troupe::kernels {
namespace {

/// Number of separate elements that are copied into contiguous memory, updated there and copied back together: they fit
/// the first-level cache.
constexpr uint64_t gathered_max = 1024;

template <class State>
constexpr core::dtype dtype_of = std::is_same_v<State, double> ? core::dtype::f64 : core::dtype::f32;

/// Updates separate elements of a piece: copies them into a contiguous run, calls the optimizer for the run, copies the
/// results back. All optimizers for which this is used update each element by itself, so the bits do not depend on an
/// element's neighbours.
template <class State>
class gathered {
 public:
  gathered(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<State>& piece)
      : options_(options), step_(step), piece_(piece) {}

  /// Adds element `i` of the piece to the run, with this gradient, which the optimizer multiplies by
  /// step.gradient_scale. Updates the run when it is full.
  void add(uint64_t i, State gradient) {
    index_[count_] = i;
    gradient_[count_] = gradient;
    if (++count_ == gathered_max) flush();
  }

  void flush() {
    if (count_ == 0) return;
    for_each_array([&](State* from, State* here) {
      for (uint64_t k = 0; k < count_; ++k) here[k] = from[index_[k]];
    });
    const uint64_t copy_bytes = piece_.copy == nullptr ? 0 : core::size_of(piece_.copy_dtype);
    optimizer_piece<State> run;
    run.master = master_.data();
    for (size_t m = 0; m < max_moments; ++m)
      run.moments[m] = piece_.moments[m] == nullptr ? nullptr : moments_[m].data();
    run.gradient = reinterpret_cast<const std::byte*>(gradient_.data());
    run.gradient_dtype = dtype_of<State>;
    run.copy = copy_bytes == 0 ? nullptr : copy_.data();
    run.copy_dtype = piece_.copy_dtype;
    run.count = count_;
    update_unchecked(options_, step_, run);
    for_each_array([&](State* to, const State* here) {
      for (uint64_t k = 0; k < count_; ++k) to[index_[k]] = here[k];
    });
    for (uint64_t k = 0; k < count_ && copy_bytes > 0; ++k)
      std::memcpy(piece_.copy + index_[k] * copy_bytes, copy_.data() + k * copy_bytes, copy_bytes);
    count_ = 0;
  }

 private:
  template <class F>
  void for_each_array(F&& f) {
    f(piece_.master, master_.data());
    for (size_t m = 0; m < max_moments; ++m)
      if (piece_.moments[m] != nullptr) f(piece_.moments[m], moments_[m].data());
  }

  const optimizer_options& options_;
  const optimizer_step& step_;
  const optimizer_piece<State>& piece_;
  uint64_t count_ = 0;
  std::array<uint64_t, gathered_max> index_;
  std::array<State, gathered_max> gradient_, master_;
  std::array<std::array<State, gathered_max>, max_moments> moments_;
  std::array<std::byte, gathered_max * sizeof(State)> copy_;
};

/// Returns, one call after another, the matrix columns of the consecutive elements of a slice.
class column_walk {
 public:
  explicit column_walk(const matrix_slice& s) : columns_(s.columns), at_(s.first % s.columns) {}
  uint64_t next() {
    const uint64_t out = at_;
    if (++at_ == columns_) at_ = 0;
    return out;
  }

 private:
  uint64_t columns_, at_;
};

template <class State>
void sum_columns(const optimizer_piece<State>& piece, const matrix_slice& slice, std::span<double> sums) {
  column_walk column(slice);
  for_each_gradient(piece, [&](uint64_t, State g) { sums[column.next()] += std::abs(double(g)); });
}

template <class State>
void now(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
         const matrix_slice& slice, std::span<const uint8_t> selected, State* deferred) {
  gathered<State> run(options, step, piece);
  column_walk column(slice);
  const auto scale = static_cast<State>(step.gradient_scale);
  for_each_gradient(piece, [&](uint64_t i, State g) {
    if (selected[column.next()] != 0)
      run.add(i, g);
    else
      deferred[i] = deferred[i] + g * scale;
  });
  run.flush();
}

template <class State>
void later(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
           const matrix_slice& slice, std::span<const uint8_t> selected, State* deferred, uint64_t gradients) {
  optimizer_step mean = step;
  mean.gradient_scale = 1.0 / static_cast<double>(gradients);
  gathered<State> run(options, mean, piece);
  column_walk column(slice);
  for (uint64_t i = 0; i < piece.count; ++i)
    if (selected[column.next()] == 0) {
      run.add(i, deferred[i]);
      deferred[i] = 0;
    }
  run.flush();
}

}  // namespace

void add_column_sums(const optimizer_piece<float>& piece, const matrix_slice& slice, std::span<double> sums) {
  sum_columns(piece, slice, sums);
}
void add_column_sums(const optimizer_piece<double>& piece, const matrix_slice& slice, std::span<double> sums) {
  sum_columns(piece, slice, sums);
}

uint64_t num_selected(uint64_t columns, double share) {
  return std::clamp<uint64_t>(static_cast<uint64_t>(share * static_cast<double>(columns)), 1, columns);
}

void select_columns(std::span<const double> sums, uint64_t count, std::span<uint8_t> selected) {
  std::vector<uint32_t> order(sums.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sums[a] > sums[b]; });
  std::fill(selected.begin(), selected.end(), uint8_t{0});
  for (uint64_t k = 0; k < count; ++k) selected[order[k]] = 1;
}

void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred) {
  now(options, step, piece, slice, selected, deferred);
}
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred) {
  now(options, step, piece, slice, selected, deferred);
}

void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred,
                     uint64_t gradients) {
  later(options, step, piece, slice, selected, deferred, gradients);
}
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred,
                     uint64_t gradients) {
  later(options, step, piece, slice, selected, deferred, gradients);
}

}  // namespace troupe::kernels
