// Owns the state of a parameter to update, one whole update by any optimizer and the distance between two results;
// shared by the optimizer tests.
#pragma once

#include <array>
#include <numeric>
#include <span>

#include "core/math.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/orthogonalise.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {

/// Weights, moments and 16-bit copy of one parameter, on the host.
template <class State>
struct optimizer_state {
  std::vector<State> master{};
  std::array<std::vector<State>, max_moments> moments{};
  std::vector<std::byte> copy{};

  /// Returns elements [first, first + count) of the state with this gradient; the piece has a 16-bit copy only if the
  /// state has one.
  optimizer_piece<State> piece(const std::byte* gradient, core::dtype gradient_type, uint64_t first, uint64_t count,
                               core::dtype copy_type = core::dtype::bf16) {
    optimizer_piece<State> out{.master = master.data() + first,
                               .gradient = gradient + first * core::size_of(gradient_type),
                               .gradient_dtype = gradient_type,
                               .copy = copy.empty() ? nullptr : copy.data() + first * core::size_of(copy_type),
                               .copy_dtype = copy_type,
                               .count = count};
    for (size_t m = 0; m < max_moments; ++m) out.moments[m] = moments[m].empty() ? nullptr : moments[m].data() + first;
    return out;
  }
};

inline uint64_t blocks_of(uint64_t count) { return core::div_up(count, core::partition_grain); }

/// Runs both phases of LAMB, prepare and apply, on a parameter that is one piece.
template <class State>
void whole_update(const lamb_options& o, const optimizer_step& s, const optimizer_piece<State>& piece) {
  std::vector<double> weights(blocks_of(piece.count));
  std::vector<double> updates(weights.size());
  prepare_unchecked(o, s, piece, weights, updates);
  apply_unchecked(o, s, piece,
                  trust_ratio(o, std::accumulate(weights.begin(), weights.end(), 0.0),
                              std::accumulate(updates.begin(), updates.end(), 0.0)));
}

/// Runs both phases of Muon, prepare and apply, on a matrix that is one piece.
template <class State>
void whole_update(const muon_options& o, const optimizer_step& s, const optimizer_piece<State>& piece, uint64_t rows,
                  uint64_t cols) {
  std::vector<State> direction(piece.count);
  std::vector<State> scratch(orthogonalise_scratch(rows, cols));
  prepare_unchecked(o, s, piece, direction.data());
  orthogonalise_unchecked(std::span(direction), rows, cols, o.ns_steps, std::span(scratch));
  apply_unchecked(o, s, piece, direction.data());
}

/// Runs one step of any optimizer on a parameter that is one piece; only optimizers of matrices read `rows` and `cols`.
template <class State>
void whole_update(const optimizer_options& options, const optimizer_step& s, const optimizer_piece<State>& piece,
                  uint64_t rows = 0, uint64_t cols = 0) {
  switch (need_of(options)) {
    case optimizer_need::elements:
      return update_unchecked(options, s, piece);
    case optimizer_need::parameter_norms:
      return whole_update(std::get<lamb_options>(options), s, piece);
    case optimizer_need::whole_matrix:
      return whole_update(std::get<muon_options>(options), s, piece, rows, cols);
  }
}

/// Returns the norm of the difference between `got` and `wanted`, divided by the norm of `wanted`.
template <class A, class B>
double relative_difference(const std::vector<A>& got, const std::vector<B>& wanted) {
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  double difference = 0;
  double size = 0;
  for (uint64_t i = 0; i < got.size(); ++i) {
    const auto w = static_cast<double>(wanted[i]);
    difference += std::pow(static_cast<double>(got[i]) - w, 2);
    size += w * w;
  }
  return std::sqrt(difference / size);
}

}  // namespace troupe::kernels::tests
