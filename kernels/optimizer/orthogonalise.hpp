// Approximates the nearest orthogonal matrix with a few products: the quintic Newton-Schulz iteration of Muon. Owns the
// iteration and its constants; leaves the products to matrix_product.hpp.
#pragma once

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// Returns how many elements of scratch memory `orthogonalise_unchecked` requires for a matrix of this shape.
uint64_t orthogonalise_scratch(uint64_t rows, uint64_t cols);

/// Replaces the row-major `rows` x `cols` matrix G by sqrt(max(1, rows / cols)) * X, where X starts as G / max(|G|,
/// 1e-7) (Frobenius norm, so that no singular value exceeds 1) and `steps` times becomes
///   A = X * X^T,  X = 3.4445 * X + (-4.7750 * A + 2.0315 * A * A) * X
/// with X transposed if rows > cols. After the usual five steps, singular values are between about 0.7 and 1.2. A
/// matrix of zeros stays zero. Computed in the type of its elements; the bits depend on neither processor, alignment
/// nor threads. Source: Jordan et al. 2024, "Muon", whose iteration (and torch.optim.Muon's) runs in bf16, DeepSpeed's
/// in fp16 or bf16. Checks nothing: a run's plan lays out the memory. `matrix` has rows x cols elements, `scratch` at
/// least orthogonalise_scratch(), and the two share no bytes.
void orthogonalise_unchecked(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                             std::span<float> scratch);
void orthogonalise_unchecked(std::span<double> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                             std::span<double> scratch);

}  // namespace troupe::kernels
