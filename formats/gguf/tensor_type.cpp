#include "formats/gguf/tensor_type.hpp"

#include <algorithm>
#include <array>

namespace troupe::formats {
namespace {

using core::dtype;
using kernels::block_format;

struct row {
  gguf_type type;
  std::string_view name;
  dtype read_as;
  std::optional<block_format> blocks = std::nullopt;
};

constexpr std::array<row, 16> table{{
    {gguf_type::f32, "f32", dtype::f32},
    {gguf_type::f16, "f16", dtype::f16},
    {gguf_type::q4_0, "q4_0", dtype::f32, block_format::q4_0},
    {gguf_type::q4_1, "q4_1", dtype::f32, block_format::q4_1},
    {gguf_type::q5_0, "q5_0", dtype::f32, block_format::q5_0},
    {gguf_type::q5_1, "q5_1", dtype::f32, block_format::q5_1},
    {gguf_type::q8_0, "q8_0", dtype::f32, block_format::q8_0},
    {gguf_type::q4_k, "q4_k", dtype::f32, block_format::q4_k},
    {gguf_type::q5_k, "q5_k", dtype::f32, block_format::q5_k},
    {gguf_type::q6_k, "q6_k", dtype::f32, block_format::q6_k},
    {gguf_type::i8, "i8", dtype::i8},
    {gguf_type::i16, "i16", dtype::i16},
    {gguf_type::i32, "i32", dtype::i32},
    {gguf_type::i64, "i64", dtype::i64},
    {gguf_type::f64, "f64", dtype::f64},
    {gguf_type::bf16, "bf16", dtype::bf16},
}};

const row& row_of(gguf_type t) {
  return *std::find_if(table.begin(), table.end(), [t](const row& r) { return r.type == t; });
}

}  // namespace

std::optional<gguf_type> gguf_type_of(uint64_t number) {
  for (const auto& r : table)
    if (static_cast<uint32_t>(r.type) == number) return r.type;
  return std::nullopt;
}

std::string_view name_of(gguf_type t) { return row_of(t).name; }
std::optional<block_format> blocks_of(gguf_type t) { return row_of(t).blocks; }
dtype dtype_of(gguf_type t) { return row_of(t).read_as; }

uint32_t block_elements(gguf_type t) {
  const auto blocks = blocks_of(t);
  return blocks ? kernels::elements_of(*blocks) : 1;
}
uint32_t block_bytes(gguf_type t) {
  const auto blocks = blocks_of(t);
  return blocks ? kernels::bytes_of(*blocks) : static_cast<uint32_t>(core::size_of(dtype_of(t)));
}

}  // namespace troupe::formats
