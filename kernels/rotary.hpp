// Rotary positions on the heads of one token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Turns `heads` heads of `width` elements of `type` (f32, bf16 or f16) by the angles whose `width` / 2 cosines and
/// sines are given: element i of a head turns with element i + width / 2, in fp32, rounded once. `back` turns the other
/// way. `to` may be `from`. Source: Su et al. 2021 (arXiv:2104.09864), section 3.
void turn_heads(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                const float* cosines, const float* sines, bool back);

/// The scalar twin: the same bits for `Wide` float; fp64 throughout for double, the elements then being f64.
template <class Wide>
void turn_heads_reference(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                          const Wide* cosines, const Wide* sines, bool back);

}  // namespace troupe::kernels
