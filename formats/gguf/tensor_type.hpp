// The element types of GGUF files: numbers, names, sizes. Leaves the arithmetic of the blocks to
// kernels/compress/block_formats.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.hpp"
#include "kernels/compress/block_formats.hpp"

namespace troupe::formats {

/// The element types of tensors that Troupe reads, with the numbers of the GGUF format.
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

/// Returns the type with the format's number `number`; nothing for a type that is not read.
std::optional<gguf_type> gguf_type_of(uint64_t number);
/// Returns the name of the type: `q4_0`, `bf16` ...
std::string_view name_of(gguf_type t);
/// Returns the block format of the type; nothing if it stores elements one by one.
std::optional<kernels::block_format> blocks_of(gguf_type t);
/// Returns the type as which the elements are read: fp32 for block formats, else the stored type.
core::dtype dtype_of(gguf_type t);

/// Returns the number of elements of one block; 1 for a type without blocks. A row consists of whole blocks.
uint32_t block_elements(gguf_type t);
uint32_t block_bytes(gguf_type t);

}  // namespace troupe::formats
