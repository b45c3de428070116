// Converts Troupe's element types to Torch's and back, and returns a tensor's memory and number of elements as kernels
// take them. No other file depends on the element types of both.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::models {

constexpr at::ScalarType torch_dtype(core::dtype type) {
  switch (type) {
    case core::dtype::f64:
      return at::kDouble;
    case core::dtype::f32:
      return at::kFloat;
    case core::dtype::bf16:
      return at::kBFloat16;
    case core::dtype::f16:
      return at::kHalf;
    case core::dtype::i64:
      return at::kLong;
    case core::dtype::i32:
      return at::kInt;
    case core::dtype::i16:
      return at::kShort;
    case core::dtype::i8:
      return at::kChar;
    case core::dtype::u8:
      return at::kByte;
    case core::dtype::boolean:
      return at::kBool;
  }
  return at::kFloat;
}

/// Returns Troupe's type for a Torch type, for the floating types that a model computes in.
constexpr core::dtype core_dtype(at::ScalarType type) {
  return type == at::kDouble     ? core::dtype::f64
         : type == at::kBFloat16 ? core::dtype::bf16
         : type == at::kHalf     ? core::dtype::f16
                                 : core::dtype::f32;
}

/// Returns the type that sums are formed in: fp64 for fp64, fp32 for all narrower types.
constexpr at::ScalarType sum_dtype(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

inline const std::byte* bytes_of(const at::Tensor& t) { return static_cast<const std::byte*>(t.const_data_ptr()); }
inline std::byte* bytes_in(const at::Tensor& t) { return static_cast<std::byte*>(t.mutable_data_ptr()); }
inline uint64_t count_of(const at::Tensor& t) { return static_cast<uint64_t>(t.numel()); }

}  // namespace troupe::models
