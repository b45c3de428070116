// Converts Troupe's element types to Torch's and back. No other file depends on both.
#pragma once

#include <c10/core/ScalarType.h>

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

}  // namespace troupe::models
