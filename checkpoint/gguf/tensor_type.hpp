// The element types of GGUF files: numbers, names, sizes. Arithmetic of the blocks is
// kernels/compress/block_formats.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.hpp"
#include "kernels/compress/block_formats.hpp"

namespace troupe::checkpoint {

/// Those that are read; the numbers are the format's.
enum class gguf_type : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  bf16 = 30,
};

/// Nothing for a number of no type that is read.
std::optional<gguf_type> gguf_type_of(uint64_t number);
/// `q4_0`, `bf16` ...
std::string_view name_of(gguf_type t);
/// The type's blocks; nothing where it stores elements one by one.
std::optional<kernels::block_format> blocks_of(gguf_type t);
/// What its elements are read as: their own type, of blocks fp32.
core::dtype dtype_of(gguf_type t);

/// A row is whole blocks; a type without blocks has those of one element.
uint32_t block_elements(gguf_type t);
uint32_t block_bytes(gguf_type t);

}  // namespace troupe::checkpoint
