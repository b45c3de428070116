// Constants of the Newton-Schulz iteration that makes a matrix orthogonal (orthogonalise.hpp), shared by all devices.
#pragma once

namespace troupe::kernels::newton_schulz {

/// Coefficients of one Newton-Schulz iteration, which replaces the matrix x by a x + (b g + c g g) x with g = x x^T:
/// Jordan et al., "Muon: An optimizer for hidden layers" (2024).
inline constexpr double coefficient_a = 3.4445, coefficient_b = -4.7750, coefficient_c = 2.0315;
/// Least number by which a matrix is divided before the iteration. The divisor is the matrix's Frobenius norm, or this
/// number if the norm is less.
inline constexpr double least_norm = 1e-7;

}  // namespace troupe::kernels::newton_schulz
