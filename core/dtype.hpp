// Types of the elements of tensors in memory, in messages and in files. models/ converts Torch's types to these types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::core {

/// Type of the elements of a tensor.
enum class dtype : uint8_t { f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean };

/// Returns the bytes of one element.
constexpr size_t size_of(dtype t) {
  switch (t) {
    case dtype::f64:
    case dtype::i64:
      return 8;
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::bf16:
    case dtype::f16:
    case dtype::i16:
      return 2;
    default:
      return 1;
  }
}

/// Returns "fp32", "bf16", "fp16", "fp64", "int64" ..., in the spelling of DeepSpeed's configuration.
constexpr std::string_view name_of(dtype t) {
  switch (t) {
    case dtype::f64:
      return "fp64";
    case dtype::f32:
      return "fp32";
    case dtype::bf16:
      return "bf16";
    case dtype::f16:
      return "fp16";
    case dtype::i64:
      return "int64";
    case dtype::i32:
      return "int32";
    case dtype::i16:
      return "int16";
    case dtype::i8:
      return "int8";
    case dtype::u8:
      return "uint8";
    case dtype::boolean:
      return "bool";
  }
  return "?";
}

/// Returns the floating type with this name, short or long ("fp16", "float16", "half", ...); nullopt for any other
/// text.
inline std::optional<dtype> float_dtype_from(std::string_view s) {
  if (s == "fp64" || s == "float64" || s == "double") return dtype::f64;
  if (s == "fp32" || s == "float32" || s == "float") return dtype::f32;
  if (s == "bf16" || s == "bfloat16") return dtype::bf16;
  if (s == "fp16" || s == "float16" || s == "half") return dtype::f16;
  return std::nullopt;
}
/// True for the floating-point types.
constexpr bool is_float(dtype t) { return t == dtype::f64 || t == dtype::f32 || t == dtype::bf16 || t == dtype::f16; }

}  // namespace troupe::core
